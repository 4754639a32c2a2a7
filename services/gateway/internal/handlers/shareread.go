package handlers

import (
	"context"
	"sync"

	"urr.guru/pkg/batch"
	"urr.guru/services/gateway/internal/caller"
)

// perEvent shares reads: the requests for an event that arrive together cost one call. It begins after the last of them arrived, so that
// nobody reads a state older than the own request, as one who has just bought would notice.
func perEvent[O any](get func(ctx context.Context, event string) (O, error)) *batch.Coalescer[read, O] {
	return batch.NewItems(grouping(callTimeout), func(ctx context.Context, in []read) ([]batch.Result[O], error) {
		first := make(map[string]read, 1)
		for _, r := range in {
			if _, ok := first[r.event]; !ok {
				first[r.event] = r
			}
		}
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			results = make(map[string]batch.Result[O], len(first))
		)
		for event, r := range first {
			wg.Go(func() {
				// Any one's right to this event is the right of all: each was checked for this very event.
				v, err := get(caller.With(ctx, r.caller), event)
				mu.Lock()
				defer mu.Unlock()
				results[event] = batch.Result[O]{Value: v, Err: err}
			})
		}
		wg.Wait()
		out := make([]batch.Result[O], len(in))
		for i, r := range in {
			out[i] = results[r.event]
		}
		return out, nil
	})
}
