package dynamo

import (
	"context"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

var _ request.Withdrawer = (*Store)(nil)

// Withdrawable implements request.Withdrawer.
func (s *Store) Withdrawable(ctx context.Context, id string) (r promotion.Request, open bool, err error) {
	if r, err = s.Get(ctx, id); err != nil {
		return r, false, err
	}
	at := table.EntryCounterKey(r.EventID, promotion.LotteryGroup(id))
	items, err := s.Read(ctx, at)
	if err != nil {
		return r, false, unavailable(err)
	}
	counter, err := table.DecodeEntryCounter(items.Get(at))
	return r, counter.ClosedAt == 0, unavailable(err)
}

// Withdraw implements request.Withdrawer. With the request go its entry, or its marker if it is none
// yet; its lock says that it was withdrawn, so that the user may apply again. An entry goes only while
// its group is open.
func (s *Store) Withdraw(ctx context.Context, r promotion.Request) (stale bool, err error) {
	tx := s.Begin()
	tx.Change(0, r.Withdrawn(s.Millis()))
	tx.Withdraw(0, &r)
	failpoint.Hit("ingest.withdrawing")
	err = tx.Commit(ctx)
	failpoint.Hit("ingest.withdrawn")
	if dynamo.Contended(err) {
		return true, nil
	}
	return false, unavailable(err)
}
