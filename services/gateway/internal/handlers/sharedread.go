package handlers

import (
	"context"
	"sync"

	"urr.guru/pkg/batch"
	"urr.guru/services/gateway/internal/caller"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// sharedRead is a request for the data of a key, on behalf of a caller.
type sharedRead[K comparable] struct {
	key    K
	caller *commonv1.Caller
}

type eventRead = sharedRead[string]

// newSharedRead batches reads: get is called once for all requests of a batch with the same key. The
// call starts after the last of them has arrived, so that no client reads a state from before its own
// request, for example from before its own purchase.
func newSharedRead[K comparable, O any](get func(ctx context.Context, key K) (O, error)) *batch.Coalescer[sharedRead[K], O] {
	return batch.NewItems(batchConfig(callTimeout), func(ctx context.Context, in []sharedRead[K]) ([]batch.Result[O], error) {
		first := make(map[K]sharedRead[K], 1)
		for _, r := range in {
			if _, ok := first[r.key]; !ok {
				first[r.key] = r
			}
		}
		var (
			wg      sync.WaitGroup
			mu      sync.Mutex
			results = make(map[K]batch.Result[O], len(first))
		)
		for key, r := range first {
			wg.Go(func() {
				// Every caller may read this key, so one call on behalf of the first is enough.
				v, err := get(caller.With(ctx, r.caller), key)
				mu.Lock()
				defer mu.Unlock()
				results[key] = batch.Result[O]{Value: v, Err: err}
			})
		}
		wg.Wait()
		out := make([]batch.Result[O], len(in))
		for i, r := range in {
			out[i] = results[r.key]
		}
		return out, nil
	})
}
