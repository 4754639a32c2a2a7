// Package planned exports how many processors the openings of the next half hour need. An alert
// compares this number with the processors that are ready.
package planned

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/telemetry"
)

const (
	every = time.Minute
	// ahead is how long before an opening its needs are exported.
	ahead = 30 * time.Minute
)

var cores = telemetry.Gauge("urr_planned_cores", //nolint:gochecknoglobals // metrics are registered once per process
	"Processors that a service needs for the crowd that is expected at an opening: from half an hour before until the crowd has come. Every replica reports the same.",
	"event", "process")

// Opening is the opening of an event at which a crowd is expected.
type Opening struct {
	EventID string
	At      time.Time
	plan.Expected
}

// Exporter exports the needs of one kind of openings.
type Exporter struct {
	Kind plan.Kind
	// Find returns the openings between since and until; it may return other openings too.
	Find func(ctx context.Context, since, until time.Time) ([]Opening, error)
	Now  func() time.Time

	figures plan.Figures
	last    map[series]float64
}

type series struct{ event, process string }

// Run returns a worker that exports the needs. When openings cannot be read, the metric keeps its
// last values.
func (e *Exporter) Run(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, every, log, "expected openings not read", e.Update)
	}
}

// Update exports the needs once. Series are replaced without a reset, so that a scrape finds all.
func (e *Exporter) Update(ctx context.Context) (err error) {
	if e.last == nil {
		if e.figures, err = plan.Kept(); err != nil {
			return err
		}
	}
	now := e.Now()
	found, err := e.Find(ctx, now.Add(-plan.MaxWithinSeconds*time.Second), now.Add(ahead))
	if err != nil {
		return err
	}
	next := map[series]float64{}
	for _, o := range found {
		if o.At.After(now.Add(ahead)) || o.At.Add(time.Duration(o.WithinSeconds)*time.Second).Before(now) {
			continue
		}
		for process, n := range e.figures.ServiceCores(plan.Opening{Kind: e.Kind, Expected: o.Expected}) {
			next[series{o.EventID, process}] = n
		}
	}
	for s, n := range next {
		cores.WithLabelValues(s.event, s.process).Set(n)
	}
	for s := range e.last {
		if _, still := next[s]; !still {
			cores.DeleteLabelValues(s.event, s.process)
		}
	}
	e.last = next
	return nil
}
