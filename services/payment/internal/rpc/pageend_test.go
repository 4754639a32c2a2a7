package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// A buyer who does not come back is not charged, and the reference is released.
func TestOpenPaymentExpires(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	b.sweep(pageTime - 31*time.Second)
	require.Equal(t, "OPEN", b.get(p).GetStatus())
	b.sweep(time.Second)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	b.sweep(0)
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	_, err := b.comeBack(b.returnParams(p, "ok-1"))
	require.NoError(t, err, "the page shows what became of it")
	b.sweep(time.Minute)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
	require.Zero(t, b.provider.Calls(paymenttest.Lookups), "nothing was charged: the page is asked")
	require.EqualValues(t, "CLOSED", b.provider.Session(p.GetOrderId()).State, "nobody can pay on it later")
}

// The page of an ended payment is closed, and a later authorisation is cancelled. Both are retried
// until the provider confirms.
func TestEndedPageIsClosed(t *testing.T) {
	t.Parallel()
	d := newAuthorizer()
	b := setup(t, withAuthorizer(d))
	p, ref := b.prepared()
	d.failing = 2
	_, err := b.cancel(p, user)
	require.NoError(t, err)
	d.authorize(p.GetOrderId())
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts, "the seats do not wait for it")
	for range 10 {
		b.sweep(time.Second)
	}
	require.Equal(t, 3, d.cancels)
	require.False(t, d.isAuthorized(p.GetOrderId()))
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
	require.EqualValues(t, "VOIDED", b.provider.Order(p.GetOrderId()).Status)
}

// If a charge never arrived, it is sent again with the same key while the claim lasts, and is made
// only once.
func TestLostChargeIsSentAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provider.Fail(paymenttest.Charges, 1)
	p, _ := b.pending("ok-1")
	b.becomes(p, "CONFIRMED")
	require.Equal(t, 2, b.provider.Calls(paymenttest.Charges))
	require.Equal(t, "ok-1", b.provider.Order(p.GetOrderId()).PaymentKey)
}

// A payment whose hold has ended is not charged again.
func TestLostHoldIsNotChargedFor(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.provider.Fail(paymenttest.Charges, 1)
	p, _ := b.pending("ok-1")
	b.tickets.Fail("Begin", errs.ErrHoldExpired)
	got := b.becomes(p, "DECLINED")
	require.Equal(t, "NOT_CHARGED", got.GetDeclineCode())
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
	require.EqualValues(t, "VOIDED", b.provider.Order(p.GetOrderId()).Status, "impossible before the places are released")
}

// An hour and a day after a payment's end the provider is asked: a charge found then still counts.
func TestEndedPaymentIsLookedAtAgain(t *testing.T) {
	t.Parallel()
	for _, after := range []time.Duration{time.Hour, 24 * time.Hour} {
		b := setup(t)
		b.provider.Fail(paymenttest.Voids, 1000)
		p, _ := b.pending("lost-1")
		b.sweep(15 * time.Minute)
		require.Equal(t, "DECLINED", b.get(p).GetStatus())
		if after > time.Hour {
			b.sweep(time.Hour)
			require.Equal(t, "DECLINED", b.get(p).GetStatus())
			after -= time.Hour
		}
		b.provider.Capture(p.GetOrderId(), amount)
		b.sweep(after)
		require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	}
}

// If an ended payment still has the claim, the next payment of the reference releases it.
func TestNextPaymentReleasesTheLastOne(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	p, ref := b.prepared()
	b.tickets.Fail("Abort", errs.ErrUnavailable)
	got, err := b.confirm(p, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "DECLINED", got.GetStatus())
	next, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "OPEN", next.GetStatus())
	require.Equal(t, next.GetPaymentId(), b.tickets.Hold(ref).Payment)
}
