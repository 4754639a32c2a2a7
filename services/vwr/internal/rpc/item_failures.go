package rpc

import (
	"context"
	"log/slog"
	"sync"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// itemFailures collects the failed items of one call. The call itself succeeds, so no interceptor
// logs their server errors. They are logged here, once per call, since a store that fails fails
// every item.
type itemFailures struct {
	call string

	mu    sync.Mutex
	count int
	first *errs.Error
}

// problem converts an item's error for the caller.
func (f *itemFailures) problem(err error) *commonv1.Problem {
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

func (f *itemFailures) log(ctx context.Context, log *slog.Logger) {
	if f.count > 0 {
		log.ErrorContext(ctx, "visitors not served", "call", f.call, "count", f.count, "reason", f.first.Reason, "error", f.first)
	}
}
