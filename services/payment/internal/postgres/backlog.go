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

// The gauges of the backlog. Alerts use ages: a large backlog is harmless while it is processed.
var (
	unsettled       = gauge("urr_payments_unsettled", "Payments whose charge is not known yet.")
	unsettledOldest = gauge("urr_payments_unsettled_oldest_seconds", "Age of the oldest payment whose charge is not known yet.")
	refunds         = gauge("urr_refunds_pending", "Refunds that the provider has not made yet.")
	refundsOldest   = gauge("urr_refunds_pending_oldest_seconds", "Age of the oldest refund that the provider has not made yet.")
)

func gauge(name, help string) prometheus.Gauge {
	return promauto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

// Measure returns the worker that updates the gauges.
func (s *Store) Measure(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, measureEvery, log, "backlog not measured", s.measure)
	}
}

func (s *Store) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	row, err := s.q.Backlog(ctx, s.now())
	if err != nil {
		return postgres.Err(err)
	}
	unsettled.Set(float64(row.Unsettled))
	unsettledOldest.Set(row.UnsettledSeconds)
	refunds.Set(float64(row.Refunds))
	refundsOldest.Set(row.RefundSeconds)
	return nil
}
