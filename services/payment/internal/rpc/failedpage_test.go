package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// requireFailure gives a payment up, and requires what the ticket service is told about it.
func (b *bundle) requireFailure(p *paymentv1.PrepareResponse, ref string, declined, unopened bool) {
	b.t.Helper()
	_, err := b.cancel(p, user)
	require.NoError(b.t, err)
	b.sweep(time.Second)
	h := b.tickets.Hold(ref)
	require.Empty(b.t, h.Payment)
	require.Equal(b.t, []bool{declined, unopened}, []bool{h.Declined, h.Unopened}, "declined, unopened")
}

// A card that is declined on the provider's page is not a change of mind, nor is a page that the
// provider does not open.
func TestWhyNothingWasPaidOnAPage(t *testing.T) {
	t.Parallel()
	t.Run("Stripe, declined", func(t *testing.T) {
		t.Parallel()
		s := setupStripe(t)
		p, ref := s.prepared()
		s.choose(p, stripe.Decline)
		s.deliverPending()
		s.sweep(21 * time.Second) // the next look at the page
		require.Equal(t, "OPEN", s.get(p).GetStatus(), "another card may be tried")
		s.requireFailure(p, ref, true, false)
	})
	t.Run("Stripe, gone back", func(t *testing.T) {
		t.Parallel()
		s := setupStripe(t)
		p, ref := s.prepared()
		s.comeBack(s.choose(p, stripe.Back))
		s.sweep(time.Second)
		s.requireFailure(p, ref, false, false)
	})
	for code, declined := range map[string]bool{"REJECT_CARD_COMPANY": true, "PAY_PROCESS_CANCELED": false} {
		t.Run("Toss, "+code, func(t *testing.T) {
			t.Parallel()
			s := setupToss(t)
			p, ref := s.prepared()
			params := s.choose(p, "back")
			params["code"] = code
			_, err := s.comeBack(params)
			require.NoError(t, err)
			s.requireFailure(p, ref, declined, false)
		})
	}
	t.Run("not opened", func(t *testing.T) {
		t.Parallel()
		b := setup(t, withPage)
		b.provider.Lose(paymenttest.Sessions, 1)
		ref := b.tickets.Add(user, amount, holdTime)
		p, err := b.prepare(ref, newIdempotencyKey())
		require.NoError(t, err)
		require.Nil(t, p.GetPage())
		b.requireFailure(p, ref, false, true)
	})
}
