// Package guard protects the provider with a circuit breaker and a limit of concurrent charges. While
// the provider fails, charges are refused before anything is sent, so that payers get an answer at once
// and their payments stay unchanged.
package guard

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sony/gobreaker/v2"

	"urr.guru/services/payment/internal/payment"
)

// The circuit opens when at least minFailures charges, and at least half of all, have failed within
// the window. After openFor it admits one charge. The window is leastWindow, or twice the longest
// charge if that is longer, since charges that began before it are not counted.
const (
	leastWindow = time.Minute
	bucket      = 5 * time.Second
	openFor     = 5 * time.Second
	minFailures = 20
)

var refused = promauto.NewCounterVec(prometheus.CounterOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_payment_charges_refused_total", Help: "Charges that were not sent: the circuit is open, or too many are under way.",
}, []string{"reason"})

// Limits are the limits of one replica's calls to the provider.
type Limits struct {
	// ChargesAtOnce is the maximum number of concurrent charges.
	ChargesAtOnce int
	// ChargeTime is the time limit of one charge.
	ChargeTime time.Duration
}

// Provider is a payment.Provider with a circuit breaker and a limit of concurrent charges. Other calls
// are only limited by the budget of the provider's account.
type Provider struct {
	payment.Provider

	breaker *gobreaker.TwoStepCircuitBreaker[any]
	slots   chan struct{}
}

var _ payment.Provider = (*Provider)(nil)

// New returns p with a circuit breaker and limits.
func New(p payment.Provider, limits Limits) *Provider {
	return &Provider{
		Provider: p,
		slots:    make(chan struct{}, limits.ChargesAtOnce),
		breaker: gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			MaxRequests: 1, Interval: max(leastWindow, 2*limits.ChargeTime), BucketPeriod: bucket, Timeout: openFor,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalFailures >= minFailures && n.TotalFailures*2 >= n.Requests
			},
		}),
	}
}

// Charge charges a payment. It sends nothing and fails with payment.ErrNotAdmitted while the
// circuit is open or too many charges are in progress. Declines and rejected requests do not count
// as failures, so that a few invalid requests do not stop all charges. Neither do calls beyond the
// limits of the account: the budget slows down, and the provider works.
func (p *Provider) Charge(ctx context.Context, pay payment.Payment, seen payment.Outcome) (payment.Outcome, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		refused.WithLabelValues("busy").Inc()
		return payment.Outcome{}, fmt.Errorf("%w: %d charges are under way", payment.ErrNotAdmitted, cap(p.slots))
	}
	done, err := p.breaker.Allow()
	if err != nil {
		refused.WithLabelValues("circuit").Inc()
		return payment.Outcome{}, fmt.Errorf("%w: %w", payment.ErrNotAdmitted, err)
	}
	out, err := p.Provider.Charge(ctx, pay, seen)
	if errors.Is(err, payment.ErrNotAdmitted) {
		refused.WithLabelValues("provider").Inc() // it accepts no charges at all, e.g. with a wrong key
	}
	if errors.Is(err, payment.ErrChargeRejected) || errors.Is(err, payment.ErrThrottled) || errors.Is(err, payment.ErrNoTurn) {
		done(nil)
	} else {
		done(err)
	}
	return out, err
}
