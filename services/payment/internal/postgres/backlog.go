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
	refundsAccepted = gaugeByCause("urr_refunds_accepted_oldest_seconds", "Age of the oldest refund that the provider has accepted and not made yet.")
	refundsHeld     = gauge("urr_refunds_held", "Refunds that wait for a person: the provider has not made them, or money was given back by hand.")
	byHand          = gauge("urr_payments_refunded_by_hand", "Payments of which a person gave back money that counts for nothing yet, goodwill left out.")
)

var (
	disputed    = gauge("urr_payments_disputed", "Payments whose payer disputes the charge at the bank.")
	evidenceDue = gauge("urr_payments_evidence_due", "Disputed payments whose evidence is due at the provider within 3 days, or was; until it answers again.")
	warned      = gauge("urr_payments_fraud_warned",
		"Payments that a card's issuer has called fraud within a day, and that are neither disputed nor refunded.")
)

var unserved = gauge("urr_payments_unserved", "Due payments of providers that are not configured here: they wait for one that has them.")

var otherMode = gauge("urr_payments_of_other_mode",
	"Due payments and refunds of the other mode (test or live) than the present keys, which do not know them: nobody settles them.")

var differencesOpen = promauto.NewGaugeVec(prometheus.GaugeOpts{
	Name: "urr_payment_differences_open", Help: "Open differences between the payments and a provider's account, or ticket, as reconciliation found them.",
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
		found := int64(0)
		return loop.Try(ctx, measureEvery, log, "backlog not measured", func(ctx context.Context) error {
			before := found
			n, err := s.measure(ctx)
			if found = n; found > before {
				log.ErrorContext(ctx, "due payments have another mode (test or live) than the keys, and are not settled", "payments", found)
			}
			return err
		})
	}
}

// measure sets the gauges. It returns how many payments and refunds of the other mode are due.
func (s *Store) measure(ctx context.Context) (ofOtherMode int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, measureTimeout)
	defer cancel()
	row, err := s.q.Backlog(ctx, db.BacklogParams{Now: s.now(), Providers: s.opts.Providers, Mode: string(s.opts.Mode), Causes: causes()})
	if err != nil {
		return 0, postgres.Err(err)
	}
	unsettled.Set(float64(row.Unsettled))
	unsettledOldest.Set(row.UnsettledSeconds)
	byHand.Set(float64(row.ByHand))
	unserved.Set(float64(row.Unserved))
	disputed.Set(float64(row.Disputed))
	otherMode.Set(float64(row.OtherMode))
	evidenceDue.Set(float64(row.EvidenceDue))
	warned.Set(float64(row.Warned))
	return row.OtherMode, s.measureRefunds(ctx)
}

func causes() (list []string) {
	for _, cause := range payment.Causes {
		list = append(list, string(cause))
	}
	return list
}

// measureRefunds sets the gauges of refunds, by cause; 0 for a cause without refunds.
func (s *Store) measureRefunds(ctx context.Context) error {
	causes := causes()
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
		refundsAccepted.WithLabelValues(cause).Set(found[cause].AcceptedOldestSeconds)
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
	for _, kind := range reconcile.TicketKinds {
		counts[[2]string{reconcile.Ticket, string(kind)}] = 0
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
