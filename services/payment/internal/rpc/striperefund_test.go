package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
)

// requireRefunded requires that Stripe has refunded sum in so many refunds, as the payment says.
func (s *stripeShop) requireRefunded(p *paymentv1.PrepareResponse, sum int64, times int) {
	s.t.Helper()
	order := s.stripe.Order(p.GetOrderId())
	require.Equal(s.t, sum, order.Refunded)
	require.Len(s.t, order.Refunds, times)
	require.Equal(s.t, sum, s.count(`SELECT refunded FROM payments WHERE id = $1`, p.GetPaymentId()))
}

// untilStripe sweeps every 15 min, for at most two days, until the refund has the status.
func (s *stripeShop) untilStripe(p *paymentv1.PrepareResponse, status string) storedRefund {
	s.t.Helper()
	var got storedRefund
	for range 200 {
		if got = s.refund(p, string(payment.ByUser)); got.status == status {
			break
		}
		s.sweep(15 * time.Minute)
	}
	require.Equal(s.t, status, got.status)
	return got
}

// A refund is made once, whatever happens to a call, even if Stripe keeps an internal error under
// the key, or may have forgotten the key.
func TestStripeRefundsOnce(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes.Fault{"", fakes.Lost, fakes.Broken, fakes.Dropped, fakes.Failed, fakes.Limited, fakes.Garbled, fakes.Late} {
		for _, pause := range []time.Duration{0, 25 * time.Hour} {
			s := setupStripe(t)
			p := s.bought()
			s.stripe.Calls.Inject(fake.CreateRefund, fault)
			s.ask(p, payment.ByUser, "k")
			s.sweep(0)
			s.clock.Advance(min(pause, time.Minute))
			s.stripe.Calls.Arrive()
			s.clock.Advance(pause)
			s.untilStripe(p, "DONE")
			s.requireRefunded(p, amount, 1)
			require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, s.eventTypes(p), "%s, %s", fault, pause)
		}
	}
}

// A refund that Stripe accepted fails days later. It is HELD, and its money counts as not refunded.
func TestStripeRefundFailsLater(t *testing.T) {
	t.Parallel()
	for _, webhook := range []bool{true, false} {
		s := setupStripe(t)
		p := s.bought()
		s.stripe.SetRules(fake.Rules{PendingRefunds: true})
		s.ask(p, payment.ByUser, "k")
		s.sweep(0)
		require.Equal(t, "ACCEPTED", s.refund(p, string(payment.ByUser)).status)
		require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, s.eventTypes(p), "the place is free")
		s.deliverPending()
		s.sweep(72 * time.Hour)
		require.NoError(t, s.stripe.SettleRefund(s.stripe.Order(p.GetOrderId()).Refunds[0].ID, "failed"))
		if webhook {
			s.deliverPending()
			s.sweep(time.Minute)
		} else {
			s.sweep(24 * time.Hour)
		}
		require.Equal(t, "HELD", s.refund(p, string(payment.ByUser)).status)
		s.requireRefunded(p, 0, 1)
	}
}

// Operators see why a refund is accepted and not made yet.
func TestStripeRefundWaitsForMoney(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	s.stripe.SetRules(fake.Rules{PendingRefunds: true, PendingReason: "insufficient_funds"})
	s.ask(p, payment.ByUser, "k")
	s.sweep(0)
	shows := func(status, reason string) {
		t.Helper()
		list, err := s.operators.ListRefunds(t.Context(), &paymentv1.ListRefundsRequest{Caller: operator(""), Status: status})
		require.NoError(t, err)
		require.Len(t, list.GetItems(), 1)
		require.Equal(t, reason, list.GetItems()[0].GetPendingReason())
	}
	shows("ACCEPTED", "insufficient_funds")
	id := s.stripe.Order(p.GetOrderId()).Refunds[0].ID
	s.stripe.DelayRefund(id, "processing")
	s.sweep(time.Hour)
	shows("ACCEPTED", "processing")
	version := s.count(`SELECT version FROM payments WHERE id = $1`, p.GetPaymentId())
	s.sweep(24 * time.Hour)
	require.Equal(t, version, s.count(`SELECT version FROM payments WHERE id = $1`, p.GetPaymentId()), "nothing new")
	require.NoError(t, s.stripe.SettleRefund(id, "succeeded"))
	s.sweep(24 * time.Hour)
	shows("DONE", "")
}

// A refund on Stripe's dashboard is found by its webhook. If it is the whole charge, tickets end.
func TestStripeRefundByHand(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	s.deliverPending()
	require.NoError(t, s.stripe.RefundByHand(p.GetOrderId(), amount))
	s.deliverPending()
	s.sweep(time.Minute)
	s.sweep(time.Minute)
	s.requireRefunded(p, amount, 1)
	require.Equal(t, "REFUNDED", s.get(p).GetStatus())
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, s.eventTypes(p))
}
