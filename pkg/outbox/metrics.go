package outbox

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/postgres"
)

const (
	measureEvery = 5 * time.Second
	// countLimit is where counting rows stops: past it the number itself says nothing more.
	countLimit = 100_000
)

// What a replica reports is the whole table, not its shards, so that events that no relay serves show too.
var (
	lagGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_outbox_lag_seconds", Help: "Age of the oldest event that is not published yet.",
	})
	rowsGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_outbox_rows", Help: "Events that are not published yet, counted up to 100,000.",
	})
)

// startMetrics measures every 5 s until the returned function is called.
func (r *Relay) startMetrics(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if err := r.measure(ctx); err != nil && ctx.Err() == nil {
				r.log.WarnContext(ctx, "outbox not measured", "error", err)
			}
			pause(ctx, measureEvery)
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (r *Relay) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	var rows, seconds float64
	err := r.pool.QueryRow(ctx, `
		SELECT (SELECT count(*) FROM (SELECT FROM outbox LIMIT $1) AS first)::float8,
		       coalesce((SELECT extract(epoch FROM clock_timestamp() - created_at)::float8 FROM outbox ORDER BY id LIMIT 1), 0)`,
		countLimit).Scan(&rows, &seconds)
	if err != nil {
		return postgres.Err(err)
	}
	rowsGauge.Set(rows)
	lagGauge.Set(max(0, seconds))
	return nil
}
