package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

// listed returns the disputed payments, or those in another status, as operators see them.
func (s *stripeShop) listed(status string) []*paymentv1.Dispute {
	s.t.Helper()
	list, err := s.disputed.ListDisputes(s.t.Context(), &paymentv1.ListDisputesRequest{Caller: operator(""), Status: status})
	require.NoError(s.t, err)
	return list.GetItems()
}

// Operators see until when evidence about a dispute is taken, and that it is waited for no longer once
// some was sent. Neither is published.
func TestEvidenceIsDue(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.bought()
	opened := s.clock.Now()
	s.disputes(p, "")
	list := s.listed("")
	require.Len(t, list, 1)
	require.Equal(t, p.GetPaymentId(), list[0].GetPaymentId())
	require.Equal(t, opened.Add(9*24*time.Hour), list[0].GetEvidenceDueAt().AsTime())
	since := list[0].GetDisputedAt().AsTime()

	s.disputes(p, "under_review")
	list = s.listed("DISPUTED")
	require.Len(t, list, 1)
	require.Nil(t, list[0].GetEvidenceDueAt())
	require.Equal(t, since, list[0].GetDisputedAt().AsTime())
	require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_DISPUTED"}, s.eventTypes(p))

	s.disputes(p, "won")
	require.Empty(t, s.listed(""))
}

// A warning of the card's issuer is listed for operators until the payment is disputed or refunded. The
// payer, who may be the thief, hears nothing.
func TestFraudWarning(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, other := s.bought(), s.bought()
	before := s.get(p)
	for range 2 {
		require.NoError(t, s.stripe.WarnOfFraud(p.GetOrderId(), "made_with_stolen_card"))
		s.deliverPending()
		s.clock.Advance(time.Minute)
	}
	list := s.listed("WARNED")
	require.Len(t, list, 1)
	require.Equal(t, p.GetPaymentId(), list[0].GetPaymentId())
	require.Equal(t, "made_with_stolen_card", list[0].GetFraudType())
	require.Equal(t, s.clock.Now().Add(-2*time.Minute), list[0].GetWarnedAt().AsTime(), "the first one counts")
	require.Equal(t, amount, list[0].GetAmount())
	require.Empty(t, s.listed("DISPUTED"))
	require.Equal(t, before.GetTimeline(), s.get(p).GetTimeline())
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, s.eventTypes(p))

	s.ask(p, payment.ByOperator, "k")
	s.untilRefund(p, "OPERATOR", "DONE")
	require.Empty(t, s.listed("WARNED"), "refunded")
	require.NoError(t, s.stripe.WarnOfFraud(other.GetOrderId(), ""))
	s.deliverPending()
	require.Equal(t, "unknown", s.listed("WARNED")[0].GetFraudType())
	s.disputes(other, "")
	require.Empty(t, s.listed("WARNED"))
	require.Equal(t, "unknown", s.listed("DISPUTED")[0].GetFraudType())

	_, err := s.disputed.ListDisputes(t.Context(), &paymentv1.ListDisputesRequest{Caller: caller(user, "")})
	require.ErrorIs(t, err, errs.ErrRoleRequired)
	_, err = s.disputed.ListDisputes(t.Context(), &paymentv1.ListDisputesRequest{Caller: operator(""), Cursor: "?"})
	require.ErrorIs(t, err, errs.ErrInvalidCursor)
}

func TestDisputesHavePages(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	want := []string{}
	for range 3 {
		p := s.bought()
		s.exec(`UPDATE payments SET warned_at = now() WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
		want = append([]string{p.GetPaymentId()}, want...)
	}
	got := []string{}
	for cursor := ""; ; {
		page, err := s.disputed.ListDisputes(t.Context(), &paymentv1.ListDisputesRequest{Caller: operator(""), Status: "WARNED", Limit: 2, Cursor: cursor})
		require.NoError(t, err)
		for _, d := range page.GetItems() {
			got = append(got, d.GetPaymentId())
		}
		if cursor = page.GetNextCursor(); cursor == "" {
			break
		}
	}
	require.Equal(t, want, got)
}

// The nightly comparison finds a warning whose webhook was lost. Warnings of other shops, and those
// without a payment here, change nothing.
func TestFraudWarningIsFoundAtNight(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p := s.charged()
	require.NoError(t, s.stripe.WarnOfFraud(p.GetOrderId(), "misc"))
	s.stripe.Webhooks.Take() // lost
	s.stripe.Charge("of-another-shop", "krw", 700)
	require.NoError(t, s.stripe.WarnOfFraud("of-another-shop", "misc"))
	s.deliverPending()
	require.Empty(t, s.listed("WARNED"))
	code, out := s.account().reconcile()
	require.Zero(t, code, out)
	require.Len(t, s.listed("WARNED"), 1)
	require.Equal(t, "misc", s.listed("WARNED")[0].GetFraudType())
}
