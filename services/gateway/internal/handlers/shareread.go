package handlers

import (
	"context"
	"sync"

	"urr.guru/pkg/batch"
	"urr.guru/services/gateway/internal/caller"
)

// newSharedRead shares reads: requests for an event that arrive together cost one call. The call
// starts after the last of them arrived, so that no client reads a state from before its own
// request, for example from before its own purchase.
func newSharedRead[O any](get func(ctx context.Context, event string) (O, error)) *batch.Coalescer[eventRead, O] {
	return batch.NewItems(batchConfig(callTimeout), func(ctx context.Context, in []eventRead) ([]batch.Result[O], error) {
		first := make(map[string]eventRead, 1)
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
				// Every request was authorised for this event, so any caller will do.
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
