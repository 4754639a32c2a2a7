package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
)

const (
	measureEvery   = 10 * time.Second
	measureTimeout = 5 * time.Second
)

//nolint:gochecknoglobals // metrics are registered once per process
var (
	heldGauge = gauge("urr_rewards_held", "Rewards that an operator must resolve.")
	dueGauge  = gauge("urr_rewards_due_oldest_seconds", "Age of the oldest reward that is due and not paid; negative: nothing is due.")
)

func gauge(name, help string) prometheus.Gauge {
	return promauto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Measure returns the worker that updates the gauges.
func (d *Database) Measure(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, measureEvery, func(ctx context.Context) {
			ctx, cancel := context.WithTimeout(ctx, measureTimeout)
			defer cancel()
			row, err := d.q.Backlog(ctx, d.now())
			if err != nil {
				log.WarnContext(ctx, "backlog not measured", "error", postgres.Err(err))
				return
			}
			heldGauge.Set(float64(row.Held))
			dueGauge.Set(row.OldestDueSeconds)
		})
	}
}
