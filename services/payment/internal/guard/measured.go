package guard

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/payment/internal/payment"
)

var seconds = promauto.NewHistogramVec(prometheus.HistogramOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_payment_provider_seconds", Help: "Time that a provider took to answer an operation, by outcome: ok, refused, not_sent or failed.",
	Buckets: prometheus.ExponentialBuckets(0.01, 2, 14),
}, []string{"provider", "operation", "outcome"})

// Values of the label outcome. A refusal is an answer, not a failure of the provider.
const (
	succeeded = "ok"
	refusal   = "refused"
	unsent    = "not_sent"
	failed    = "failed"
)

// The operations without which nothing can be sold.
const (
	opening = "open"
	charge  = "charge"
	ask     = "ask"
)

// measured is a provider whose operations are measured.
type measured struct {
	payment.Provider

	name string
	key  *key
}

// Measured returns p with metrics of its operations, under the label provider=name. While p does not
// accept its secret key, it opens no page and charges nothing (payment.ErrKeyRefused).
func Measured(name string, p payment.Provider) payment.Provider {
	return measured{Provider: p, name: name, key: &key{provider: name}}
}

// measure runs and times an operation. refused reports whether an answer is a refusal; nil: never.
func measure[T any](m measured, operation string, refused func(T) bool, run func() (T, error)) (T, error) {
	began := time.Now()
	answer, err := run()
	switch refused := errors.Is(err, payment.ErrKeyRefused); {
	case refused && (operation == opening || operation == charge || operation == ask):
		m.key.note(err) // a key that may not make refunds can sell
	case err == nil && operation != opening: // a page may open without a call
		m.key.note(err)
	}
	outcome := succeeded
	switch {
	case errors.Is(err, payment.ErrNotSent) || errors.Is(err, payment.ErrNotAdmitted):
		outcome = unsent
	case err != nil:
		outcome = failed
	case refused != nil && refused(answer):
		outcome = refusal
	}
	seconds.WithLabelValues(m.name, operation, outcome).Observe(time.Since(began).Seconds())
	return answer, err
}

func (m measured) Open(ctx context.Context, p payment.Payment) (payment.Page, error) {
	if err := m.admit(ctx); err != nil {
		return payment.Page{}, err
	}
	return measure(m, opening, nil, func() (payment.Page, error) { return m.Provider.Open(ctx, p) })
}

func (m measured) Charge(ctx context.Context, p payment.Payment, seen payment.Outcome) (payment.Outcome, error) {
	if err := m.admit(ctx); err != nil {
		return payment.Outcome{}, err
	}
	refused := func(o payment.Outcome) bool { return o.State == payment.Refused }
	return measure(m, charge, refused, func() (payment.Outcome, error) { return m.Provider.Charge(ctx, p, seen) })
}

func (m measured) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	return measure(m, ask, nil, func() (payment.Outcome, error) { return m.Provider.Ask(ctx, p) })
}

func (m measured) Cancel(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	return measure(m, "cancel", nil, func() (payment.Outcome, error) { return m.Provider.Cancel(ctx, p) })
}

func (m measured) Refund(ctx context.Context, c payment.RefundCall) (payment.RefundAnswer, error) {
	refused := func(a payment.RefundAnswer) bool {
		return a.State == payment.ProviderTooMuch || a.State == payment.ProviderRefused
	}
	return measure(m, "refund", refused, func() (payment.RefundAnswer, error) { return m.Provider.Refund(ctx, c) })
}

func (m measured) AskRefunds(ctx context.Context, p payment.Payment) (payment.RefundReport, error) {
	return measure(m, "ask_refunds", nil, func() (payment.RefundReport, error) { return m.Provider.AskRefunds(ctx, p) })
}
