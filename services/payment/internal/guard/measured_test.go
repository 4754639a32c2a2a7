package guard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
)

// answering is a provider with fixed answers.
type answering struct {
	payment.Provider

	charge payment.State
	refund payment.ProviderState
	err    error
}

func (a answering) Open(context.Context, payment.Payment) (payment.Page, error) {
	return payment.Page{}, a.err
}

func (a answering) Charge(context.Context, payment.Payment, payment.Outcome) (payment.Outcome, error) {
	return payment.Outcome{State: a.charge}, a.err
}

func (a answering) Ask(context.Context, payment.Payment) (payment.Outcome, error) {
	return payment.Outcome{State: payment.Refused}, a.err
}

func (a answering) Cancel(context.Context, payment.Payment) (payment.Outcome, error) {
	return payment.Outcome{State: payment.NotPossible}, a.err
}

func (a answering) Refund(context.Context, payment.RefundCall) (payment.RefundAnswer, error) {
	return payment.RefundAnswer{State: a.refund}, a.err
}

func (a answering) AskRefunds(context.Context, payment.Payment) (payment.RefundReport, error) {
	return payment.RefundReport{}, a.err
}

// Each operation of a provider is counted by its outcome; a decline is not a failure.
func TestMeasured(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers        answering
		all            string
		charge, refund string // where they differ from all
	}{
		"test-ok":         {answers: answering{charge: payment.Captured, refund: payment.ProviderDone}, all: "ok"},
		"test-refused":    {answers: answering{charge: payment.Refused, refund: payment.ProviderRefused}, all: "ok", charge: "refused", refund: "refused"},
		"test-too-much":   {answers: answering{charge: payment.Pending, refund: payment.ProviderTooMuch}, all: "ok", refund: "refused"},
		"test-failed":     {answers: answering{err: errors.New("no answer"), charge: payment.Refused}, all: "failed"},
		"test-not-sent":   {answers: answering{err: fmt.Errorf("no way: %w", payment.ErrNotSent)}, all: "not_sent"},
		"test-not-let-in": {answers: answering{err: payment.ErrNotAdmitted}, all: "not_sent"},
	} {
		p := guard.Measured(name, tc.answers)
		_, _ = p.Open(t.Context(), payment.Payment{})
		_, _ = p.Charge(t.Context(), payment.Payment{}, payment.Outcome{})
		_, _ = p.Ask(t.Context(), payment.Payment{})
		_, _ = p.Cancel(t.Context(), payment.Payment{})
		_, _ = p.Refund(t.Context(), payment.RefundCall{})
		_, _ = p.AskRefunds(t.Context(), payment.Payment{})
		want := map[string]string{}
		for _, operation := range []string{"open", "charge", "ask", "cancel", "refund", "ask_refunds"} {
			want[operation] = tc.all
		}
		if tc.charge != "" {
			want["charge"] = tc.charge
		}
		if tc.refund != "" {
			want["refund"] = tc.refund
		}
		require.Equal(t, want, counted(t, name), name)
	}
}

// counted returns the outcome of each operation of a provider, which was counted once.
func counted(t *testing.T, provider string) map[string]string {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	found := map[string]string{}
	for _, f := range families {
		if f.GetName() != "urr_payment_provider_seconds" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["provider"] == provider {
				require.EqualValues(t, 1, m.GetHistogram().GetSampleCount())
				found[labels["operation"]] = labels["outcome"]
			}
		}
	}
	return found
}
