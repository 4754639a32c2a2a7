package rpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

func TestConfirm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.confirmed()
	require.EqualValues(t, "CAPTURED", b.provider.Order(p.GetOrderId()).Status)
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment, "the reference is claimed for this payment")
	want := []*eventsv1.PaymentEvent{{
		Type: "PAYMENT_CONFIRMED", PaymentType: "reservation", PaymentId: p.GetPaymentId(), OrderId: p.GetOrderId(),
		SagaId: p.GetPaymentId(), ReferenceId: ref, UserId: user, EventId: "demo", Amount: amount, Currency: "KRW", Version: 3,
		PartialRefunds: new(true),
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
	b := setup(t)
	p, _ := b.prepared()
	p.Amount--
	_, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrAmountMismatch)
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
}

func TestDeclineReleasesTheReference(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	got, err := b.confirm(p, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "DECLINED", got.GetStatus())
	require.Equal(t, "CARD_DECLINED", got.GetDeclineCode())
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))

	next, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.NotEqual(t, p.GetPaymentId(), next.GetPaymentId())
	got, err = b.confirm(next, "ok-1", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
}

func TestReleaseIsRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	b.tickets.Fail("Abort", errs.ErrInternal, errs.ErrInternal)
	_, err := b.confirm(p, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	require.Zero(t, b.tickets.Hold(ref).Aborts)
	b.sweep(5 * time.Second)
	require.Zero(t, b.tickets.Hold(ref).Aborts, "the second attempt fails too")
	b.sweep(2 * time.Second)
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	b.sweep(time.Hour)
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts, "once is enough")
}

// Nothing is charged if the ticket service refuses. Its error is the answer.
func TestTicketRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	b.tickets.Fail("Begin", errs.ErrHoldExpired)
	key := newIdempotencyKey()
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrHoldExpired)
	_, err = b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrHoldExpired)
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
}

// foreignRefusals are errors that look like refusals by the ticket service, but come from a proxy,
// or from a replica with other rules.
var foreignRefusals = map[string]error{
	"a mesh denies":         status.Error(codes.PermissionDenied, "RBAC: access denied"),
	"a proxy knows no path": status.Error(codes.NotFound, "no route"),
	"an unknown rule":       errs.ErrInvalidRequest,
	"a newer reason":        errs.New(errs.Conflict, "NEWER_REASON", "A reason that payment does not know"),
	"a precondition":        status.Error(codes.FailedPrecondition, "upstream"),
	"aborted":               status.Error(codes.Aborted, "upstream"),
	"out of range":          status.Error(codes.OutOfRange, "upstream"),
	"an unknown method":     status.Error(codes.Unimplemented, "unknown method"),
}

// Only the ticket service's reasons end a payment. After another error the request can be repeated.
func TestOnlyTicketRefusalsDecline(t *testing.T) {
	t.Parallel()
	for name, answer := range foreignRefusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, _ := b.prepared()
			b.tickets.Fail("Begin", answer)
			key := newIdempotencyKey()
			_, err := b.confirm(p, "ok-1", key)
			require.ErrorIs(t, err, errs.ErrUnavailable)
			require.Equal(t, "PREPARED", b.get(p).GetStatus())
			require.Zero(t, b.provider.Calls(paymenttest.Charges))
			got, err := b.confirm(p, "ok-1", key)
			require.NoError(t, err, "the same request may be repeated")
			require.Equal(t, "CONFIRMED", got.GetStatus())

			other := b.tickets.Add(user, amount, holdTime)
			b.tickets.Fail("Payable", answer)
			_, err = b.prepare(other, newIdempotencyKey())
			require.ErrorIs(t, err, errs.ErrUnavailable, "nor is it the payer who is told no")
		})
	}
}

// Only the ticket service's reasons end the release of a reference. After another error it is
// retried: otherwise the buyer's seats would stay claimed.
func TestOnlyTicketRefusalsEndRelease(t *testing.T) {
	t.Parallel()
	for name, answer := range foreignRefusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, ref := b.prepared()
			b.tickets.Fail("Abort", answer)
			_, err := b.confirm(p, "decline-1", newIdempotencyKey())
			require.NoError(t, err)
			require.Zero(t, b.tickets.Hold(ref).Aborts)
			b.sweep(5 * time.Second)
			require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
		})
	}
}

// If the ticket service does not answer, it is unknown whether it claimed the reference. Nothing
// was charged, and the request may be repeated.
func TestTicketDoesNotAnswer(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	b.tickets.Fail("Begin", errs.ErrInternal)
	key := newIdempotencyKey()
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
	got, err := b.confirm(p, "ok-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
}

// If the ticket service claims the reference but its answer is lost, the claim is released at once,
// so that the payer can try again or give up the seats.
func TestLostAnswerOfBeginReleases(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	b.tickets.Fail("BeginAnswer", errs.ErrInternal)
	_, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Empty(t, b.tickets.Hold(ref).Payment)
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
	again, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, p.GetPaymentId(), again.GetPaymentId(), "the same payment")
}

// A claim whose answers were lost is released when the payment expires.
func TestLostClaimIsReleased(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	b.tickets.Fail("BeginAnswer", errs.ErrInternal)
	b.tickets.Fail("Abort", errs.ErrInternal)
	_, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrUnavailable)
	require.Equal(t, p.GetPaymentId(), b.tickets.Hold(ref).Payment)
	b.sweep(holdTime)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	b.sweep(0)
	require.Empty(t, b.tickets.Hold(ref).Payment)
}

func TestProviderUnreachable(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	b.server.Close()
	got, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.NoError(t, err)
	require.Equal(t, "DECLINED", got.GetStatus())
	require.Equal(t, "PROVIDER_UNREACHABLE", got.GetDeclineCode())
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
}

func TestConfirmChargesOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	var requests sync.WaitGroup
	answers, failures := make([]string, 10), make([]error, 10)
	for i := range answers {
		requests.Go(func() {
			got, err := b.confirm(p, "ok-1", newIdempotencyKey())
			answers[i], failures[i] = got.GetStatus(), err
		})
	}
	requests.Wait()
	require.NoError(t, errors.Join(failures...))
	require.Subset(t, []string{"CONFIRMED", "PENDING"}, answers)
	require.Contains(t, answers, "CONFIRMED", "whoever charges hears of it")
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

func TestConfirmIsRepeatableByKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	key := newIdempotencyKey()
	release := b.provider.Block(paymenttest.Charges)
	running := make(chan error, 1)
	go func() {
		_, err := b.confirm(p, "ok-1", key)
		running <- err
	}()
	testkit.Until(t, func() bool { return b.provider.Calls(paymenttest.Charges) == 1 }, "the charge")
	_, err := b.confirm(p, "ok-1", key)
	require.ErrorIs(t, err, errs.ErrIdempotencyInProgress)
	release()
	require.NoError(t, testkit.Receive(t, running, "the answer to the first request"))

	_, err = b.confirm(p, "ok-2", key)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused)
	b.exec(`UPDATE payments SET status = 'REFUNDED' WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	got, err := b.confirm(p, "ok-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus(), "the first answer")
	require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
}

// PENDING is not stored: the same key later returns the final answer.
func TestOnlyFinalAnswersAreKept(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	key := newIdempotencyKey()
	got, err := b.confirm(p, "timeout-1", key)
	require.NoError(t, err)
	require.Equal(t, "PENDING", got.GetStatus())
	b.becomes(p, "CONFIRMED")
	got, err = b.confirm(p, "timeout-1", key)
	require.NoError(t, err)
	require.Equal(t, "CONFIRMED", got.GetStatus())
}

// outOfTime is the context of a request whose deadline has passed, but which is not cancelled yet.
type outOfTime struct{ context.Context } //nolint:containedctx // a context with another deadline

func (outOfTime) Deadline() (time.Time, bool) { return time.Unix(0, 0), true }

// The charge continues after its request has ended. (When the request is answered is tested in
// package payment, with simulated time.)
func TestChargeOutlivesItsRequest(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	release := b.provider.Block(paymenttest.Charges)
	ctx, cancel := context.WithCancel(t.Context())
	got, err := b.service.Confirm(outOfTime{ctx}, payment.ConfirmRequest{
		OrderID: p.GetOrderId(), UserID: user, PaymentKey: "ok-1", Amount: amount, IdempotencyKey: newIdempotencyKey(),
	})
	require.NoError(t, err)
	require.Equal(t, payment.Unknown, got.Status)
	cancel()
	release()
	require.NoError(t, b.service.Wait(t.Context()))
	require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, b.eventTypes(p))
}

// The charging process has the lease for the longest time of a charge. After that it counts as
// dead, and the order is voided, so that the charge fails if the process was only slow.
func TestSweeperTakesOverAfterChargeTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	release := b.provider.Block(paymenttest.Charges)
	charging := make(chan error, 1)
	go func() {
		_, err := b.confirm(p, "ok-1", newIdempotencyKey())
		charging <- err
	}()
	testkit.Until(t, func() bool { return b.provider.Calls(paymenttest.Charges) == 1 }, "the charge")
	b.sweep(noTimeout)
	require.Zero(t, b.provider.Calls(paymenttest.Lookups))
	b.sweep(10 * time.Second)
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
	release()
	require.NoError(t, testkit.Receive(t, charging, "the answer"))
	require.Equal(t, "DECLINED", b.get(p).GetStatus())
	require.Equal(t, 1, b.tickets.Hold(ref).Aborts)
	require.Equal(t, []string{"PAYMENT_DECLINED"}, b.eventTypes(p))
}
