package rpc

import (
	"context"
	"log/slog"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	"urr.guru/services/ingest/internal/request"
)

var answered = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_applications_total", Help: "Applications by their answer: the status of the request, duplicate, or the reason of a refusal.",
}, []string{"answer"})

func outcome(a request.Applied) string {
	if a.Duplicate {
		return "duplicate"
	}
	return string(a.Request.Status)
}

// failures collects the failed items of one call. The call itself succeeds, so no interceptor logs
// their server errors; they are logged once per call.
type failures struct {
	log *slog.Logger

	mu    sync.Mutex
	count int
	first *errs.Error
}

// problem converts an item's error for the caller.
func (f *failures) problem(err error) *commonv1.Problem {
	e := errs.From(err)
	answered.WithLabelValues(e.Reason).Inc()
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

func (f *failures) report(ctx context.Context) {
	if f.count > 0 {
		f.log.ErrorContext(ctx, "applications not taken", "count", f.count, "reason", f.first.Reason, "error", f.first)
	}
}
