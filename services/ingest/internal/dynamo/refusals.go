package dynamo

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
	"urr.guru/services/ingest/internal/request"
)

const (
	maxEarlier = 100 // the most users whose locks one call reads
	// A refusal is written up to refusalTries times, refusalPause apart, within refusalTimeout.
	refusalTries   = 3
	refusalPause   = time.Second
	refusalTimeout = 10 * time.Second
)

var refusalsTotal = promauto.NewCounterVec(prometheus.CounterOpts{
	Name: "urr_refusals_total",
	Help: "Applications to sold-out promotions that were to be recorded: recorded, or lost since the store or the queue in front of it was overloaded.",
}, []string{"result"})

func (s *Store) Earlier(ctx context.Context, applications []request.Applicant) []request.Outcome[request.EarlierApplications] {
	out := make([]request.Outcome[request.EarlierApplications], len(applications))
	for i, read := range s.earlier.DoAll(ctx, applications) {
		out[i] = request.Outcome[request.EarlierApplications](read)
	}
	return out
}

// RecordLater stores a rejected request after the answer, in separate batches, so as not to delay
// other applications. Requests that are not stored when the process dies are lost.
func (s *Store) RecordLater(a request.Application) {
	if err := s.refusals.Put(a); err != nil {
		refusalsTotal.WithLabelValues("lost").Inc()
	}
}

func (s *Store) recordRefusals(ctx context.Context, in []request.Application) ([]batch.Result[struct{}], error) {
	byEvent := map[string][]request.Application{}
	for _, a := range in {
		byEvent[a.EventID] = append(byEvent[a.EventID], a)
	}
	for event, applications := range byEvent {
		for try := 1; len(applications) > 0; try++ {
			again := s.storeRefusals(ctx, event, applications)
			if len(again) > 0 && (try == refusalTries || !loop.Sleep(ctx, refusalPause)) {
				refusalsTotal.WithLabelValues("lost").Add(float64(len(again)))
				break
			}
			applications = again
		}
	}
	return make([]batch.Result[struct{}], len(in)), nil
}

// storeRefusals stores rejected requests to one promotion, and returns those to try again.
func (s *Store) storeRefusals(ctx context.Context, event string, applications []request.Application) (again []request.Application) {
	stored, err := s.acceptGroup(ctx, event, applications)
	for i, a := range applications {
		switch {
		case err == nil && stored[i].Err == nil:
			refusalsTotal.WithLabelValues("recorded").Inc()
		case err != nil || slices.Contains([]errs.Kind{errs.Unavailable, errs.Exhausted, errs.Deadline}, errs.From(stored[i].Err).Kind):
			again = append(again, a)
		default: // such as after the end of the promotion: the refusal is not recorded
		}
	}
	return again
}
