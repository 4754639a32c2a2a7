package rpc_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/errs"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/payment/internal/payment"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, ref := b.confirmed()
	require.Equal(t, "CAPTURED", b.provider.Order(p.GetOrderId()).Status)
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment, "the reference is claimed for this payment")
	want := []*eventsv1.PaymentEvent{{
		Type: "PAYMENT_CONFIRMED", PaymentType: "reservation", PaymentId: p.GetPaymentId(), OrderId: p.GetOrderId(),
		SagaId: p.GetPaymentId(), ReferenceId: ref, UserId: user, EventId: "demo", Amount: amount, Currency: "KRW", Version: 3,
	}}
	diff := cmp.Diff(want, b.events(p), protocmp.Transform(), protocmp.IgnoreFields(&eventsv1.PaymentEvent{}, "occurred_at"))
	require.Empty(t, diff)
	var statuses []string
	for _, e := range b.get(p).GetTimeline() {
		statuses = append(statuses, e.GetStatus())
	}
	require.Equal(t, []string{"PREPARED", "PENDING", "CONFIRMED"}, statuses)
}

func TestConfirmChecksTheAmount(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	p.Amount--
	_, err := b.confirm(p, "ok-1", newKey())
	require.ErrorIs(t, err, errs.ErrAmountMismatch)
	require.Zero(t, b.provider.Calls(charges))
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
}

func TestDeclineReleasesTheReference(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, ref := b.prepared()
	got, err := b.confirm(p, "decline-1", newKey())
	require.NoError(t, err)
	require.Equal(t, "DECLINED", got.GetStatus())
	require.Equal(t, "CARD_DECLINED", got.GetDeclineCode())
	require.Equal(t, 1, b.tickets.Hold(ref).Aborted)
	require.Empty(t, b.eventTypes(p))

	next, err := b.prepare(ref, newKey())
	require.NoError(t, err)
	require.NotEqual(t, p.GetPaymentId(), next.GetPaymentId())
	got, err = b.confirm(next, "ok-1", newKey())
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
}

func TestReleaseIsRepeatedUntilHeard(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, ref := b.prepared()
	b.tickets.Fail("Abort", errs.ErrInternal, errs.ErrInternal)
	_, err := b.confirm(p, "decline-1", newKey())
	require.NoError(t, err)
	require.Zero(t, b.tickets.Hold(ref).Aborted)
	for range 2 { // make it due, instead of waiting
		b.exec(`UPDATE payments SET check_at = now() WHERE abort_due`)
		require.Eventually(t, func() bool {
			var due bool
			require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT EXISTS (SELECT 1 FROM payments WHERE check_at <= now())`).Scan(&due))
			return !due
		}, patience, 10*time.Millisecond)
	}
	require.Eventually(t, func() bool { return b.tickets.Hold(ref).Aborted == 1 }, patience, 10*time.Millisecond)
}

// Nothing was charged when ticket said no; the answer is ticket's.
func TestTicketRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	b.tickets.Fail("Begin", errs.ErrHoldExpired)
	key := newKey()
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrHoldExpired)
	_, err = b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrHoldExpired)
	require.Zero(t, b.provider.Calls(charges))
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
}

// Ticket may or may not have claimed the reference; nothing was charged, and repeating is right.
func TestTicketDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	b.tickets.Fail("Begin", errs.ErrInternal)
	key := newKey()
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
	got, err := b.confirm(p, "ok-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
	require.Equal(t, 1, b.provider.Calls(charges))
}

// Ticket has claimed the reference, its answer was lost, and the payer never came back.
func TestLostClaimIsReleasedInTheEnd(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, ref := b.prepared()
	b.tickets.Fail("BeginAnswer", errs.ErrInternal)
	_, err := b.confirm(p, "ok-1", newKey())
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment)
	b.exec(`UPDATE payments SET expires_at = now(), check_at = now()`)
	b.becomes(p, "EXPIRED")
	require.Eventually(t, func() bool { return b.tickets.Hold(ref).Payment == "" }, patience, 10*time.Millisecond)
}

func TestProviderIsNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, ref := b.prepared()
	b.server.Close()
	got, err := b.confirm(p, "ok-1", newKey())
	require.NoError(t, err)
	require.Equal(t, "DECLINED", got.GetStatus())
	require.Equal(t, "PROVIDER_UNREACHABLE", got.GetDeclineCode())
	require.Equal(t, 1, b.tickets.Hold(ref).Aborted)
}

func TestFreeNeedsNoProvider(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, err := b.prepare(b.tickets.Add(user, 0, time.Minute), newKey())
	require.NoError(t, err)
	got, err := b.confirm(p, "free", newKey())
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
	require.Zero(t, b.provider.Calls(charges))
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

func TestConfirmChargesOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	results := make(chan string, 10)
	for range cap(results) {
		go func() {
			got, err := b.confirm(p, "ok-1", newKey())
			if err != nil {
				t.Error(err)
			}
			results <- got.GetStatus()
		}()
	}
	for range cap(results) {
		require.Contains(t, []string{"CONFIRMED", "PENDING"}, <-results)
	}
	require.Equal(t, "CONFIRMED", b.becomes(p, "CONFIRMED").GetStatus())
	require.Equal(t, 1, b.provider.Calls(charges))
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

func TestConfirmIsRepeatableByKey(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	key := newKey()
	release := b.provider.Hold()
	running := make(chan error, 1)
	go func() {
		_, err := b.confirm(p, "ok-1", key)
		running <- err
	}()
	require.Eventually(t, func() bool { return b.provider.Calls(charges) == 1 }, patience, 5*time.Millisecond)
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrIdempotencyInProgress)
	release()
	require.NoError(t, <-running)

	_, err = b.confirm(p, "ok-2", key)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused)
	b.exec(`UPDATE payments SET status = 'REFUNDED' WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	got, err := b.confirm(p, "ok-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus(), "the first answer")
	require.Equal(t, 1, b.provider.Calls(charges))
}

// A PENDING is no final answer: the same key later gives what became of it.
func TestOnlyFinalAnswersAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	key := newKey()
	got, err := b.confirm(p, "timeout-1", key)
	require.NoError(t, err)
	require.Equal(t, "PENDING", got.GetStatus())
	b.becomes(p, "CONFIRMED")
	got, err = b.confirm(p, "timeout-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
}

// The charge goes on when the request's time is over. (How long before that the answer comes is tested where time is simulated; here it
// is not asked for by RPC, since one that the machine delays would be lost.)
func TestAChargeOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	b := setup(t, options())
	p, _ := b.prepared()
	release := b.provider.Hold()
	defer release()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
	defer cancel()
	got, err := b.service.Confirm(ctx, payment.ConfirmRequest{
		OrderID: p.GetOrderId(), UserID: user, PaymentKey: "ok-1", Amount: amount, IdempotencyKey: newKey(),
	})
	require.NoError(t, err)
	require.Equal(t, payment.Unknown, got.Status)
	cancel()
	release()
	b.becomes(p, "CONFIRMED")
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}
