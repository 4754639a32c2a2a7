package dynamo

import (
	"context"
	"unique"

	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

var (
	_ request.DrawStore   = (*Store)(nil)
	_ request.WinnerStore = (*Store)(nil)
)

func (s *Store) Draw(ctx context.Context, eventID string) (promotion.Draw, error) {
	items, err := s.Read(ctx, table.DrawKey(eventID))
	if err != nil {
		return promotion.Draw{}, toUnavailable(err)
	}
	d, err := table.DecodeDraw(eventID, items.Get(table.DrawKey(eventID)))
	return d, toUnavailable(err)
}

func (s *Store) Entries(ctx context.Context, eventID string, root fairdraw.Hash, n int) (fairdraw.Entries, error) {
	key := table.EntriesKey(eventID, root, n)
	items, err := s.Read(ctx, key)
	if err != nil {
		return nil, toUnavailable(err)
	}
	chunk, err := table.DecodeEntries(items.Get(key))
	return chunk, toUnavailable(err)
}

func (s *Store) Ranks(ctx context.Context, d *promotion.Draw, n int) (promotion.Ranks, error) {
	key := table.RanksKey(d, n)
	items, err := s.Read(ctx, key)
	if err != nil {
		return nil, toUnavailable(err)
	}
	ranks, err := table.DecodeRanks(items.Get(key))
	return ranks, toUnavailable(err)
}

func (s *Store) ExcludedRequests(ctx context.Context, eventID string) ([]fairdraw.Exclusion, error) {
	var all []fairdraw.Exclusion
	for it, err := range s.All(ctx, table.PartitionQuery{PK: table.ExclusionPartition(eventID)}) {
		if err != nil {
			return nil, toUnavailable(err)
		}
		e, err := table.DecodeExclusion(it)
		if err != nil {
			return nil, toUnavailable(err)
		}
		all = append(all, fairdraw.Exclusion{RequestID: e.RequestID, Reason: unique.Make(string(e.Reason)).Value()})
	}
	return all, nil
}

func (s *Store) Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error) {
	winners, err := s.Store.Winners(ctx, d)
	return winners, toUnavailable(err)
}

func (s *Store) Users(ctx context.Context, requestIDs []string) (map[string]string, error) {
	keys := make([]dynamo.Item, len(requestIDs))
	for i, id := range requestIDs {
		keys[i] = table.RequestKey(id)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, toUnavailable(err)
	}
	users := make(map[string]string, len(items))
	for i, id := range requestIDs {
		it := items.Get(keys[i])
		if it == nil || table.Expired(it, s.Millis()) {
			continue
		}
		r, err := table.DecodeRequest(it)
		if err != nil { // the request is listed without its user
			s.ReportSkipped(ctx, it, err)
			continue
		}
		users[id] = r.UserID
	}
	return users, nil
}

func (s *Store) FirstComeWinners(ctx context.Context, eventID string, after int64) (page []request.Winner, more bool, err error) {
	items, more, err := s.Query(ctx, table.WinnersBehind(eventID, after))
	if err != nil {
		return nil, false, toUnavailable(err)
	}
	for _, it := range items {
		if table.Expired(it, s.Millis()) {
			continue
		}
		winners, first, err := table.DecodeFirstCome(it)
		if err != nil {
			s.ReportSkipped(ctx, it, err)
		}
		for i, w := range winners {
			if first+int64(i) > after {
				page = append(page, request.Winner{RequestID: w.RequestID, UserID: w.UserID})
			}
		}
	}
	return page, more, nil
}
