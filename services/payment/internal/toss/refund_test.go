package toss_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

// call returns a call that asks for a refund of a payment.
func (s *shop) call(p payment.Payment, amount int64) payment.RefundCall {
	id := uuid.New()
	return payment.RefundCall{
		OrderID: p.OrderID, PaymentKey: p.PaymentKey, RefundID: id, Key: id.String() + "#1", Amount: amount, NotAfter: s.clock.Now().Add(time.Minute),
	}
}

func (s *shop) report(p payment.Payment) payment.RefundReport {
	s.t.Helper()
	report, err := s.client.AskRefunds(s.t.Context(), p)
	require.NoError(s.t, err)
	return report
}

// Refunds of this service are found by its id. Refunds by hand have none.
func TestRefunds(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	p := s.charged()
	first := s.call(p, 20000)
	answer, err := s.client.Refund(t.Context(), first)
	require.NoError(t, err)
	require.Equal(t, payment.ProviderDone, answer.State)
	require.NotEmpty(t, answer.ID)
	require.Empty(t, s.toss.GiveBack(p.PaymentKey, 5000))
	report := s.report(p)
	require.Equal(t, amount, report.Captured)
	require.Equal(t, int64(30000), report.RefundableAmount())
	require.Equal(t, payment.ProviderRefund{ID: answer.ID, RefundID: first.RefundID, Amount: 20000, State: payment.ProviderDone}, report.Refunds[0])
	require.Equal(t, uuid.Nil, report.Refunds[1].RefundID)
	out := s.ask(p)
	require.Equal(t, payment.Captured, out.State)
	require.Equal(t, int64(25000), out.Refunded)

	_, err = s.client.Refund(t.Context(), s.call(p, 30000))
	require.NoError(t, err)
	require.Equal(t, fake.PartCanceled, s.toss.Of(p.OrderID)[0].Status)
	require.Zero(t, s.report(p).RefundableAmount())
	answer, err = s.client.Refund(t.Context(), s.call(p, 1))
	require.NoError(t, err)
	require.Equal(t, payment.RefundAnswer{State: payment.ProviderTooMuch, Code: "ALREADY_CANCELED_PAYMENT"}, answer)

	whole := s.charged()
	_, err = s.client.Refund(t.Context(), s.call(whole, amount))
	require.NoError(t, err)
	require.Equal(t, fake.Canceled, s.toss.Of(whole.OrderID)[0].Status)
	require.Equal(t, payment.Captured, s.ask(whole).State)
}

// While Toss keeps a key, calls with that key make one refund.
func TestRefundIsRepeated(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	for _, fault := range []fakes.Fault{fakes.Lost, fakes.Dropped, fakes.Garbled, ""} {
		p := s.charged()
		call := s.call(p, 10000)
		s.toss.Inject(fake.Cancels, fault)
		_, err := s.client.Refund(t.Context(), call)
		require.Equal(t, fault == "", err == nil)
		require.NotErrorIs(t, err, payment.ErrKeySpent)
		s.clock.Advance(s.client.Capabilities().KeyLife)
		call.NotAfter = s.clock.Now()
		answer, err := s.client.Refund(t.Context(), call)
		require.NoError(t, err)
		require.Equal(t, payment.ProviderDone, answer.State)
		require.Len(t, s.report(p).Refunds, 1)
	}
}

// If a payment can only be refunded as a whole, a refund of a part is refused for good.
func TestWholeOnly(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{Rules: fake.Rules{WholeOnly: true}})
	p := s.charged()
	answer, err := s.client.Refund(t.Context(), s.call(p, 1))
	require.NoError(t, err)
	require.Equal(t, payment.ProviderRefused, answer.State)
	answer, err = s.client.Refund(t.Context(), s.call(p, amount))
	require.NoError(t, err)
	require.Equal(t, payment.ProviderDone, answer.State)
}

// A process that was suspended until after NotAfter sends no refund.
func TestLateRefundIsNotSent(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	p := s.charged()
	call := s.call(p, 1)
	s.clock.Advance(time.Minute + 1)
	_, err := s.client.Refund(t.Context(), call)
	require.ErrorIs(t, err, outbound.ErrTooLate)
	require.Empty(t, s.report(p).Refunds)
}

// Only the payment's own refunds are read, not another's of the order: one would be sent twice.
func TestRefundsOfUnknownOrder(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{Rules: fake.Rules{ShowsUnapproved: true}})
	paid := s.charged()
	twice := s.payFor(paid)
	_, err := s.client.Charge(t.Context(), twice, payment.Outcome{})
	require.NoError(t, err)
	require.Empty(t, s.toss.GiveBack(twice.PaymentKey, 100))
	require.Empty(t, s.report(paid).Refunds)
	require.Len(t, s.report(twice).Refunds, 1)
	for want, p := range map[string]payment.Payment{
		"NOT_FOUND_PAYMENT": {OrderID: paid.OrderID, PaymentKey: "unknown"},
		"IN_PROGRESS":       s.pay(),
		"another order":     {OrderID: "unknown", PaymentKey: paid.PaymentKey},
	} {
		_, err := s.client.AskRefunds(t.Context(), p)
		require.ErrorContains(t, err, want)
	}
}
