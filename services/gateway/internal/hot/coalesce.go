// Package hot holds the handlers of the routes that carry the crowd: answered from memory where that is right, else grouped, so that the
// calls which arrive within 150 µs cost one RPC (DESIGN §14).
package hot

import (
	"context"
	"time"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// How calls are grouped. Inflight lets a batch go out while others are being answered; Max is far below the services' own limit (1,000).
const (
	groupDelay    = 150 * time.Microsecond
	groupMax      = 256
	groupInflight = 8
	// groupQueue is two rounds of what can be in flight: more would wait longer than a visitor does, so it is refused at once.
	groupQueue  = 2 * groupMax * groupInflight
	callTimeout = 3 * time.Second
	// assignTimeout is longer: a position is durable before it is answered, and a table takes seconds for a crowd that comes at once.
	// Giving up would only make the same visitors ask again.
	assignTimeout = 10 * time.Second
)

func grouping(timeout time.Duration) batch.Config {
	return batch.Config{Max: groupMax, Delay: groupDelay, Inflight: groupInflight, Queue: groupQueue, Timeout: timeout}
}

// answer is one item's result: what it holds, or a problem.
type answer[O any] func() (O, *commonv1.Problem)

// group makes single calls of a batched RPC: call sends the items within timeout and returns one answer for each.
func group[I, O any](timeout time.Duration, call func(ctx context.Context, items []I) ([]answer[O], error)) *batch.Coalescer[I, O] {
	return batch.NewItems(grouping(timeout), func(ctx context.Context, items []I) ([]batch.Result[O], error) {
		answers, err := call(ctx, items)
		if err != nil {
			return nil, err
		}
		out := make([]batch.Result[O], len(answers))
		for i, a := range answers {
			v, p := a()
			if p != nil {
				out[i].Err = errs.FromProblem(p)
			} else {
				out[i].Value = v
			}
		}
		return out, nil
	})
}

// closer is what a coalescer does at the end.
type closer interface {
	Close(ctx context.Context) error
}

func closeAll(ctx context.Context, all ...closer) error {
	for _, c := range all {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
