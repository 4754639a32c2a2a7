package batchrpc

import (
	"sync"

	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// Failures collects the items of one call that failed by a fault of the server. The call itself
// succeeds, so no interceptor logs them. The server logs Args, once per call, since a store that
// fails makes every item fail. The zero value is ready, and safe for concurrent use.
type Failures struct {
	mu    sync.Mutex
	count int
	first *errs.Error
}

func (f *Failures) Problem(err error) *commonv1.Problem {
	e := errs.From(err)
	if !e.Kind.CausedByClient() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.count++
		if f.first == nil {
			f.first = e
		}
	}
	return errs.ToProblem(e)
}

// Args returns the log attributes of the failed items; nil if none failed by a fault of the server.
func (f *Failures) Args() []any {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count == 0 {
		return nil
	}
	return []any{"count", f.count, "reason", f.first.Reason, "error", f.first}
}
