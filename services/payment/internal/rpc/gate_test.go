package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// While payment events are applied late, no payment is charged. The key of a refused confirmation
// may be used again, and earlier answers are repeated.
func TestConfirmIsRefusedWhileSettlementIsDelayed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	before, _ := b.prepared()
	_, err := b.confirm(before, "ok-1", "before")
	require.NoError(t, err)
	p, ref := b.prepared()

	b.tickets.SetOldestUnapplied(3 * time.Minute)
	b.service.MeasureGate(t.Context())
	_, err = b.confirm(p, "ok-1", "key")
	require.ErrorIs(t, err, errs.ErrSettlementDelayed)
	require.Equal(t, 10*time.Second, errs.From(err).RetryAfter)
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
	require.Empty(t, b.tickets.Hold(ref).Payment, "ticket was not asked")
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
	again, err := b.confirm(before, "ok-1", "before")
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", again.GetStatus())
	again, err = b.confirm(before, "ok-1", "another key")
	require.NoError(t, err, "what is confirmed has nothing to wait for")
	require.Equal(t, "CONFIRMED", again.GetStatus())

	b.tickets.SetOldestUnapplied(time.Second)
	b.exec(`UPDATE outbox SET created_at = clock_timestamp()`)
	b.service.MeasureGate(t.Context())
	got, err := b.confirm(p, "ok-1", "key")
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
}

func TestConfirmIsRefusedWhileEventsAreUnpublished(t *testing.T) {
	t.Parallel()
	b := setup(t)
	paid, _ := b.confirmed()
	p, _ := b.prepared()
	confirms := func() error {
		b.service.MeasureGate(t.Context())
		_, err := b.confirm(p, "ok-1", newIdempotencyKey())
		return err
	}
	b.exec(`UPDATE outbox SET created_at = clock_timestamp() - interval '3 minutes'`)
	require.ErrorIs(t, confirms(), errs.ErrSettlementDelayed)
	b.exec(`INSERT INTO outbox_parked (topic, key, event_id, error) SELECT topic, key, event_id, 'too large' FROM outbox WHERE key = $1`, paid.GetOrderId())
	require.NoError(t, confirms(), "one that waits for an operator stops nobody else")
}
