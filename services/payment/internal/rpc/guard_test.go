package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// A charge that is not sent leaves the payment unchanged, so that its payer can try again.
func TestUnsentChargeCanBeRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release := b.provider.Block(paymenttest.Charges)
	answers := make(chan *paymentv1.ConfirmResponse, chargesAtOnce)
	for range chargesAtOnce {
		other, _ := b.prepared()
		go func() {
			got, _ := b.confirm(other, "ok-1", uuid.NewString())
			answers <- got
		}()
	}
	p, ref := b.prepared()
	key := newIdempotencyKey()
	b.untilCharging(chargesAtOnce)
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrProviderUnavailable)
	require.Positive(t, errs.From(err).RetryAfter)
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
	require.Empty(t, b.tickets.Hold(ref).Payment, "the reference is held as before")
	b.tickets.Fail("Abort", errs.ErrUnavailable)
	_, err = b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrProviderUnavailable)
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment, "or waits for the payer")
	release()
	for range chargesAtOnce {
		require.Equal(t, "CONFIRMED", (<-answers).GetStatus())
	}
	got, err := b.confirm(p, "ok-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
}

// If the payer does not try again after an unsent charge, the payment expires, and its reference is
// released unless it already was.
func TestUnsentChargeExpires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	release := b.provider.Block(paymenttest.Charges)
	done := make(chan struct{}, chargesAtOnce)
	for range chargesAtOnce {
		other, _ := b.prepared()
		go func() {
			_, _ = b.confirm(other, "ok-1", uuid.NewString())
			done <- struct{}{}
		}()
	}
	p, ref := b.prepared()
	b.untilCharging(chargesAtOnce)
	b.tickets.Fail("Abort", errs.ErrUnavailable)
	_, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrProviderUnavailable)
	release()
	for range chargesAtOnce {
		<-done
	}
	b.sweep(holdTime)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	b.sweep(time.Second)
	require.Empty(t, b.tickets.Hold(ref).Payment)
}
