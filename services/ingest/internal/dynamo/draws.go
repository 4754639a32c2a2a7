package dynamo

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

const parallelGroups = 8 // of entries that are read

var (
	_ request.DrawStore   = (*Store)(nil)
	_ request.WinnerStore = (*Store)(nil)
)

func (s *Store) Draw(ctx context.Context, eventID string) (promotion.Draw, error) {
	items, err := s.Read(ctx, table.DrawKey(eventID))
	if err != nil {
		return promotion.Draw{}, unavailable(err)
	}
	d, err := table.DecodeDraw(eventID, items.Get(table.DrawKey(eventID)))
	return d, unavailable(err)
}

func (s *Store) Entries(ctx context.Context, eventID string) (fairdraw.Entries, error) {
	groups := promotion.LotteryGroups()
	lists := make([]fairdraw.Entries, len(groups))
	work, reading := errgroup.WithContext(ctx)
	work.SetLimit(parallelGroups)
	for i, group := range groups {
		work.Go(func() (err error) {
			lists[i], err = s.entriesOf(reading, table.EntryPartition(eventID, group))
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return nil, unavailable(err)
	}
	entries, err := fairdraw.MergeAll(lists)
	return entries, unavailable(err)
}

// entriesOf reads a partition of entries. Texts of UUIDs sort as their bytes do.
func (s *Store) entriesOf(ctx context.Context, pk string) (ids fairdraw.Entries, err error) {
	for it, err := range s.All(ctx, table.PartitionQuery{PK: pk}) {
		if err != nil {
			return nil, err
		}
		text, err := table.DecodeEntry(it)
		if err != nil {
			return nil, err
		}
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", text, err)
		}
		ids = append(ids, id[:]...)
	}
	return ids, nil
}

func (s *Store) Excluded(ctx context.Context, eventID string) ([]fairdraw.Exclusion, error) {
	var all []fairdraw.Exclusion
	for it, err := range s.All(ctx, table.PartitionQuery{PK: table.ExclusionPartition(eventID)}) {
		if err != nil {
			return nil, unavailable(err)
		}
		e, err := table.DecodeExclusion(it)
		if err != nil {
			return nil, unavailable(err)
		}
		all = append(all, fairdraw.Exclusion{RequestID: e.RequestID, Reason: string(e.Reason)})
	}
	return all, nil
}

func (s *Store) Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error) {
	winners, err := s.Store.Winners(ctx, d)
	return winners, unavailable(err)
}

func (s *Store) Users(ctx context.Context, requestIDs []string) (map[string]string, error) {
	keys := make([]dynamo.Item, len(requestIDs))
	for i, id := range requestIDs {
		keys[i] = table.RequestKey(id)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, unavailable(err)
	}
	users := make(map[string]string, len(items))
	for i, id := range requestIDs {
		it := items.Get(keys[i])
		if it == nil || table.Expired(it, s.Millis()) {
			continue
		}
		r, err := table.DecodeRequest(it)
		if err != nil { // listed without its user
			s.ReportSkipped(ctx, it, err)
			continue
		}
		users[id] = r.UserID
	}
	return users, nil
}

func (s *Store) FirstCome(ctx context.Context, eventID, after string, limit int) (page []request.Winner, more bool, err error) {
	items, more, err := s.Query(ctx, table.PartitionQuery{PK: table.WinnerPartition(eventID), After: after, Limit: int32(limit)}) //nolint:gosec // of a page
	if err != nil {
		return nil, false, unavailable(err)
	}
	for _, it := range items {
		if table.Expired(it, s.Millis()) {
			continue
		}
		w := request.Winner{Key: table.SortKey(it)}
		if w.RequestID, w.UserID, err = table.DecodeWinner(it); err != nil { // listed without its user
			s.ReportSkipped(ctx, it, err)
		}
		page = append(page, w)
	}
	return page, more, nil
}
