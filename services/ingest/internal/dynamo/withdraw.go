package dynamo

import (
	"context"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

var _ request.Withdrawer = (*Store)(nil)

const withdrawTries = 5 // attempts, if the worker service changes the request meanwhile

// Withdraw deletes a request's entry in the draw, or its marker if it has no entry yet. It records
// the withdrawal in the lock, so that the user may apply again. An entry is deleted only while the
// draw still accepts changes of its group.
func (s *Store) Withdraw(ctx context.Context, id string, decide request.DecideWithdrawal) error {
	for range withdrawTries {
		r, open, err := s.readWithGroup(ctx, id)
		if err != nil {
			return err
		}
		tx := s.Begin()
		c, err := decide(r, open, s.Millis())
		if c == nil || err != nil {
			return err
		}
		tx.Change(0, *c)
		tx.Withdraw(0, &r)
		failpoint.Hit("ingest.withdrawing")
		err = tx.Commit(ctx)
		failpoint.Hit("ingest.withdrawn")
		if !dynamo.Contended(err) {
			return toUnavailable(err)
		}
	}
	return errs.ErrOverloaded.WithRetry(retryAfter)
}

// readWithGroup reads a request. open reports whether the draw still accepts entries of its group.
func (s *Store) readWithGroup(ctx context.Context, id string) (r promotion.Request, open bool, err error) {
	if r, err = s.Get(ctx, id); err != nil {
		return r, false, err
	}
	counterKey := table.EntryCounterKey(r.EventID, promotion.LotteryGroup(id))
	items, err := s.Read(ctx, counterKey)
	if err != nil {
		return r, false, toUnavailable(err)
	}
	counter, err := table.DecodeEntryCounter(items.Get(counterKey))
	return r, counter.ClosedAt == 0, toUnavailable(err)
}
