// Package guard protects the provider with a circuit breaker, a limit of concurrent charges, and
// rates of charges, refunds and look-ups. While the provider fails, charges are refused before
// anything is sent, so that payers get an answer at once and their payments stay unchanged.
package guard

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/sony/gobreaker/v2"
	"golang.org/x/time/rate"

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
	Name: "urr_payment_charges_refused_total", Help: "Charges that were not sent: the circuit is open, or too many are under way or were sent.",
}, []string{"reason"})

// Limits are the limits of one replica's calls to the provider.
type Limits struct {
	// ChargesAtOnce is the maximum number of concurrent charges.
	ChargesAtOnce int
	// ChargeTime is the time limit of one charge.
	ChargeTime time.Duration
	// Refunds, Lookups and Charges are the most calls per second; Charges 0: no limit.
	Refunds, Lookups, Charges float64
}

// Provider is a payment.Provider with a circuit breaker and a limit of concurrent charges, and with
// token buckets for the rates. Cancellations are not limited, since they resolve charges that were
// sent already.
type Provider struct {
	payment.Provider

	breaker *gobreaker.TwoStepCircuitBreaker[any]
	slots   chan struct{}
	refunds *rate.Limiter
	// bulk lets refunds of cancelled events use half of the rate, so that tokens are left for others.
	bulk    *rate.Limiter
	lookups *rate.Limiter
	charges *rate.Limiter
}

var _ payment.Provider = (*Provider)(nil)

// New returns p with a circuit breaker and limits.
func New(p payment.Provider, limits Limits) *Provider {
	return &Provider{
		Provider: p,
		slots:    make(chan struct{}, limits.ChargesAtOnce),
		refunds:  bucketOf(limits.Refunds),
		bulk:     bucketOf(limits.Refunds / 2),
		lookups:  bucketOf(limits.Lookups),
		charges:  bucketOf(cmp.Or(limits.Charges, math.MaxInt32)),
		breaker: gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			MaxRequests: 1, Interval: max(leastWindow, 2*limits.ChargeTime), BucketPeriod: bucket, Timeout: openFor,
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalFailures >= minFailures && n.TotalFailures*2 >= n.Requests
			},
		}),
	}
}

// bucketOf makes a token bucket for a rate. It holds the tokens of one second at most.
func bucketOf(perSecond float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(perSecond), max(1, int(perSecond)))
}

// AwaitRefund waits until the rate of refunds allows another refund with this cause.
func (p *Provider) AwaitRefund(ctx context.Context, c payment.Cause) error {
	if c == payment.EventCancelled {
		if err := p.bulk.Wait(ctx); err != nil {
			return fmt.Errorf("rate of refunds: %w", err)
		}
	}
	if err := p.refunds.Wait(ctx); err != nil {
		return fmt.Errorf("rate of refunds: %w", err)
	}
	return nil
}

func (p *Provider) Ask(ctx context.Context, pay payment.Payment) (payment.Outcome, error) {
	if err := p.lookups.Wait(ctx); err != nil {
		return payment.Outcome{}, fmt.Errorf("rate of look-ups: %w", err)
	}
	return p.Provider.Ask(ctx, pay)
}

func (p *Provider) AskRefunds(ctx context.Context, pay payment.Payment) (payment.RefundReport, error) {
	if err := p.lookups.Wait(ctx); err != nil {
		return payment.RefundReport{}, fmt.Errorf("rate of look-ups: %w", err)
	}
	return p.Provider.AskRefunds(ctx, pay)
}

// maxWait is the longest wait for a token of charges: enough time must be left for the charge.
const maxWait = 10 * time.Second

// Charge charges a payment. It sends nothing and fails with payment.ErrNotAdmitted while the
// circuit is open or too many charges are in progress. Declines and rejected requests do not count
// as failures, so that a few invalid requests do not stop all charges.
func (p *Provider) Charge(ctx context.Context, pay payment.Payment) (payment.Outcome, error) {
	select {
	case p.slots <- struct{}{}:
		defer func() { <-p.slots }()
	default:
		refused.WithLabelValues("busy").Inc()
		return payment.Outcome{}, fmt.Errorf("%w: %d charges are under way", payment.ErrNotAdmitted, cap(p.slots))
	}
	if err := p.awaitCharge(ctx); err != nil {
		refused.WithLabelValues("rate").Inc()
		return payment.Outcome{}, fmt.Errorf("%w: %w", payment.ErrNotAdmitted, err)
	}
	done, err := p.breaker.Allow()
	if err != nil {
		refused.WithLabelValues("circuit").Inc()
		return payment.Outcome{}, fmt.Errorf("%w: %w", payment.ErrNotAdmitted, err)
	}
	out, err := p.Provider.Charge(ctx, pay)
	if errors.Is(err, payment.ErrNotAdmitted) {
		refused.WithLabelValues("provider").Inc() // it accepts no charges at all, e.g. with a wrong key
	}
	if errors.Is(err, payment.ErrChargeRejected) {
		done(nil)
	} else {
		done(err)
	}
	return out, err
}

func (p *Provider) awaitCharge(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxWait)
	defer cancel()
	return p.charges.Wait(ctx)
}
