// Package guard stands between payment and its provider: while the provider fails or is silent,
// charges are refused here before anything leaves, so that payers get an answer at once and their
// payments stay as they are.
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

// The circuit opens when 20 charges or more, and at least half of all, have had no answer within
// the last minute, and lets one try again after 5 s. The window must be longer than a charge may
// take: what began before it is not counted.
const (
	window      = time.Minute
	bucket      = 5 * time.Second
	openFor     = 5 * time.Second
	minFailures = 20
)

var refused = promauto.NewCounterVec(prometheus.CounterOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_payment_charges_refused_total", Help: "Charges that were not sent: the circuit is open, or too many are under way.",
}, []string{"reason"})

// Provider is a payment.Provider whose charges pass a circuit breaker and a bulkhead. Its other
// calls go through: they settle what was begun.
type Provider struct {
	payment.Provider

	breaker *gobreaker.TwoStepCircuitBreaker[any]
	slots   chan struct{}
}

var _ payment.Provider = (*Provider)(nil)

// New guards p; at most atOnce charges are under way.
func New(p payment.Provider, atOnce int) *Provider {
	return &Provider{
		Provider: p,
		slots:    make(chan struct{}, atOnce),
		breaker: gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			MaxRequests: 1, Interval: window, BucketPeriod: bucket, Timeout: openFor,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalFailures >= minFailures && n.TotalFailures*2 >= n.Requests
			},
		}),
	}
}

// Charge implements payment.Provider; ErrNotAdmitted when nothing was sent. A decline is an answer
// like any other, and so is the rejection of one request: a few broken requests must not stop
// everybody's charges.
func (p *Provider) Charge(ctx context.Context, pay payment.Payment) (payment.Outcome, error) {
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
	out, err := p.Provider.Charge(ctx, pay)
	if errors.Is(err, payment.ErrChargeRejected) {
		done(nil)
	} else {
		done(err)
	}
	return out, err
}
