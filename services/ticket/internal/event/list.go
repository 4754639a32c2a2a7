package event

import (
	"context"

	"golang.org/x/sync/errgroup"

	"urr.guru/services/ticket/internal/limit"
)

// List returns up to max events after the cursor, at most 1 s old, and the cursor of the next page,
// nil after the last one. The counts of free places are at most 5 s old. The snapshots have no
// bitmap.
//
// Anyone may request any page, so the cost of a page must not grow with the number of all events:
// places are counted for the events of the page only, and the counts are cached for all requests.
func (s *Service) List(ctx context.Context, max int, after Cursor) ([]Snapshot, *Cursor, error) {
	page, err := s.pages.get(ctx, pageKey{limit: max + 1, after: after})
	if err != nil {
		return nil, nil, err
	}
	events := page.Events
	var next *Cursor
	if len(events) > max {
		events = events[:max]
		next = &Cursor{StartsAt: events[max-1].StartsAt, ID: events[max-1].ID}
	}
	list := make([]Snapshot, len(events))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(listLoads)
	for i, e := range events {
		group.Go(func() error {
			if err := ctx.Err(); err != nil { // another count failed
				return err
			}
			counts, err := s.counts.get(ctx, countKey{id: e.ID, version: e.Version, seating: e.Seating})
			if err != nil {
				return err
			}
			list[i] = NewSnapshotFromCounts(e, page.At, counts)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return list, next, nil
}

func (s *Service) loadPage(ctx context.Context, k pageKey) (Page, error) {
	var after *Cursor
	if k.after != (Cursor{}) {
		after = &k.after
	}
	return limit.Do(ctx, s.lists, func() (Page, error) { return s.reader.ListEvents(ctx, k.limit, after) })
}

func (s *Service) loadCount(ctx context.Context, k countKey) (Counts, error) {
	return limit.Do(ctx, s.lists, func() (Counts, error) { return s.reader.CountTaken(ctx, k.id, k.seating) })
}
