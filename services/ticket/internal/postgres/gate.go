package postgres

import (
	"context"

	"urr.guru/pkg/batch"
)

// gate bounds how much is done at once; what has to wait waits in order, and what is too much is refused (errs.ErrOverloaded).
type gate = batch.Coalescer[func(context.Context) (any, error), any]

func newGate(inflight int) *gate {
	return batch.NewItems(batch.Config{Max: 1, Inflight: inflight, Queue: maxWaiting},
		func(ctx context.Context, todo []func(context.Context) (any, error)) ([]batch.Result[any], error) {
			value, err := todo[0](ctx)
			return []batch.Result[any]{{Value: value, Err: err}}, nil
		})
}

// through does fn when the gate lets it in.
func through[T any](ctx context.Context, g *gate, fn func(context.Context) (T, error)) (T, error) {
	value, err := g.Do(ctx, func(ctx context.Context) (any, error) { return fn(ctx) })
	typed, _ := value.(T) // nothing, when it did not come to fn
	return typed, err
}
