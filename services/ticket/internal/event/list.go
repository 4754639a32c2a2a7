package event

import (
	"context"

	"golang.org/x/sync/errgroup"
)

// List returns up to limit events behind the cursor, at most 1 s old, and the cursor of the next
// page, nil after the last. Their free places are at most 5 s old; the snapshots have no bitmap.
//
// Anyone may request any page, so the cost of a page is bounded by the events it shows: places are
// counted per event, and the counts are shared by all pages.
func (s *Service) List(ctx context.Context, limit int, after Cursor) ([]Snapshot, *Cursor, error) {
	page, err := s.pages.get(ctx, pageKey{limit: limit + 1, after: after})
	if err != nil {
		return nil, nil, err
	}
	events := page.Events
	var next *Cursor
	if len(events) > limit {
		events = events[:limit]
		next = &Cursor{StartsAt: events[limit-1].StartsAt, ID: events[limit-1].ID}
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
			list[i] = NewCounted(e, page.At, counts)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, nil, err
	}
	return list, next, nil
}

func (s *Service) loadPage(ctx context.Context, k pageKey) (page Page, err error) {
	var after *Cursor
	if k.after != (Cursor{}) {
		after = &k.after
	}
	err = s.lists.Do(ctx, func() error {
		page, err = s.reader.ListEvents(ctx, k.limit, after)
		return err
	})
	return page, err
}

func (s *Service) loadCount(ctx context.Context, k countKey) (counts Counts, err error) {
	err = s.lists.Do(ctx, func() error {
		counts, err = s.reader.Taken(ctx, k.id, k.seating)
		return err
	})
	return counts, err
}
