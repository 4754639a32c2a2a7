package draw

import (
	"context"
	"fmt"
	"slices"

	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// putEntries stores the entries in chunks, before their root is public. Every process stores the
// same chunks.
func (s *drawRun) putEntries(ctx context.Context, root fairdraw.Hash, entries fairdraw.Entries) error {
	return forEach(ctx, fairdraw.ChunkCount(int64(entries.Len())), func(ctx context.Context, n int) error {
		err := retry(ctx, func() error {
			return s.store.PutEntries(ctx, s.Promotion.EventID, root, n, entries.Chunk(n), s.Promotion.EndsAt())
		})
		failpoint.Hit("worker.draw.entries")
		return err
	})
}

// putRanks stores the rank of each entry, in chunks like those of the entries.
func (s *drawRun) putRanks(ctx context.Context, order []uint32) error {
	ranks := make([]uint32, len(order))
	for i, at := range order {
		ranks[at] = uint32(i + 1) //nolint:gosec // the entries are in memory
	}
	chunks := slices.Collect(slices.Chunk(ranks, fairdraw.ChunkSize))
	return forEach(ctx, len(chunks), func(ctx context.Context, n int) error {
		return retry(ctx, func() error {
			return s.store.PutRanks(ctx, s.Draw, n, promotion.NewRanks(chunks[n]), s.Promotion.EndsAt())
		})
	})
}

// listEntries reads all entries, sorted. It fails if their number differs from the counters.
func (s *drawRun) listEntries(ctx context.Context) (fairdraw.Entries, error) {
	counted, err := retryRead(ctx, func() (map[string]int64, error) { return s.store.EntryCounts(ctx, s.Promotion.EventID) })
	if err != nil {
		return nil, err
	}
	groups := promotion.LotteryGroups()
	lists := make([]fairdraw.Entries, len(groups))
	if err := forEach(ctx, len(groups), func(ctx context.Context, i int) error {
		err := s.readGroup(ctx, groups[i], func(page fairdraw.Entries) error {
			lists[i] = append(lists[i], page...)
			return nil
		})
		if err == nil && int64(lists[i].Len()) != counted[groups[i]] {
			return fmt.Errorf("group %s has %d entries, but %d were counted", groups[i], lists[i].Len(), counted[groups[i]])
		}
		return err
	}); err != nil {
		return nil, err
	}
	return fairdraw.MergeAll(lists)
}

// readGroup reads the entries of a group, and calls take with each page.
func (s *drawRun) readGroup(ctx context.Context, group string, take func(page fairdraw.Entries) error) error {
	for after := ""; ; {
		var page fairdraw.Entries
		var next string
		if err := retry(ctx, func() (err error) {
			page, next, err = s.store.Entries(ctx, s.Promotion.EventID, group, after)
			return err
		}); err != nil {
			return err
		}
		if err := take(page); err != nil {
			return err
		}
		if after = next; after == "" {
			return nil
		}
	}
}
