package postgres

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres/db"
	"urr.guru/services/payment/internal/reconcile"
)

const (
	measureEvery   = 10 * time.Second
	measureTimeout = 5 * time.Second
)

// Gauges of unprocessed work. Alerts use its age, since much young work is harmless.
var (
	unsettled       = gauge("urr_payments_unsettled", "Payments whose charge is not known yet.")
	unsettledOldest = gauge("urr_payments_unsettled_oldest_seconds", "Age of the oldest payment whose charge is not known yet.")
	refunds         = gaugeByCause("urr_refunds_pending", "Refunds that the provider has not made yet, accepted ones included.")
	refundsOldest   = gaugeByCause("urr_refunds_pending_oldest_seconds", "Age of the oldest refund that the provider has not accepted yet.")
	refundsHeld     = gauge("urr_refunds_held", "Refunds that wait for a person: the provider has refused them, or could not make them.")
	byHand          = gauge("urr_payments_refunded_by_hand", "Payments of which a person gave back money that counts for no refund yet.")
)

var disputed = gauge("urr_payments_disputed", "Payments whose payer disputes the charge at the bank.")

var unserved = gauge("urr_payments_unserved", "Due payments of providers that are not configured here: they wait for one that has them.")

var differencesOpen = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_payment_differences_open", Help: "Open differences between a provider's account and the payments, as reconciliation found them.",
}, []string{"provider", "kind"})

func gauge(name, help string) prometheus.Gauge {
	return promauto.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
}

func gaugeByCause(name, help string) *prometheus.GaugeVec {
	return promauto.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"cause"})
}

// Measure returns a background worker that updates the gauges of this file.
func (s *Store) Measure(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Try(ctx, measureEvery, log, "backlog not measured", s.measure)
	}
}

func (s *Store) measure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	row, err := s.q.Backlog(ctx, db.BacklogParams{Now: s.now(), Providers: s.opts.Providers})
	if err != nil {
		return postgres.Err(err)
	}
	unsettled.Set(float64(row.Unsettled))
	unsettledOldest.Set(row.UnsettledSeconds)
	byHand.Set(float64(row.ByHand))
	unserved.Set(float64(row.Unserved))
	disputed.Set(float64(row.Disputed))
	return s.measureRefunds(ctx)
}

// measureRefunds sets the gauges of refunds, by cause; 0 for a cause without refunds.
func (s *Store) measureRefunds(ctx context.Context) error {
	var causes []string
	for _, cause := range payment.Causes {
		causes = append(causes, string(cause))
	}
	held, err := s.q.CountHeldRefunds(ctx, causes)
	if err != nil {
		return postgres.Err(err)
	}
	refundsHeld.Set(float64(held))
	rows, err := s.q.RefundBacklog(ctx, db.RefundBacklogParams{Causes: causes, Now: s.now()})
	if err != nil {
		return postgres.Err(err)
	}
	found := make(map[string]db.RefundBacklogRow, len(rows))
	for _, row := range rows {
		found[row.Cause] = row
	}
	for _, cause := range causes {
		refunds.WithLabelValues(cause).Set(float64(found[cause].Refunds))
		refundsOldest.WithLabelValues(cause).Set(found[cause].OldestSeconds)
	}
	return s.measureDifferences(ctx)
}

// measureDifferences sets the gauge of open differences between the payments and the providers'
// accounts, by provider and kind; 0 for a kind without differences.
func (s *Store) measureDifferences(ctx context.Context) error {
	counts := map[[2]string]int64{}
	for _, kind := range reconcile.Kinds {
		for _, provider := range s.opts.Providers {
			if provider != payment.NoProvider {
				counts[[2]string{provider, string(kind)}] = 0
			}
		}
	}
	rows, err := s.q.CountDifferences(ctx)
	if err != nil {
		return postgres.Err(err)
	}
	for _, row := range rows {
		counts[[2]string{row.Provider, row.Kind}] = row.N
	}
	differencesOpen.Reset() // removes providers that are not configured any more
	for label, n := range counts {
		differencesOpen.WithLabelValues(label[0], label[1]).Set(float64(n))
	}
	return nil
}
