package rpc

import (
	"context"
	"log/slog"
	"sync"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// faults collects the refusals of one call's items. The call itself succeeds, so what is our fault is logged here and nowhere else:
// once per call, since a store that fails fails every item.
type faults struct {
	call string

	mu    sync.Mutex
	count int
	first *errs.Error
}

// problem is an item's refusal as the caller gets it.
func (f *faults) problem(err error) *commonv1.Problem {
	e := errs.From(err)
	answered.WithLabelValues(f.call, e.Reason).Inc()
	if !e.Kind.Client() {
		f.mu.Lock()
		f.count++
		if f.first == nil {
			f.first = e
		}
		f.mu.Unlock()
	}
	return errs.ToProblem(e)
}

func (f *faults) log(ctx context.Context, log *slog.Logger) {
	if f.count > 0 {
		log.ErrorContext(ctx, "visitors not served", "call", f.call, "count", f.count, "reason", f.first.Reason, "error", f.first)
	}
}
