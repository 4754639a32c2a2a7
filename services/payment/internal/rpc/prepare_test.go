package rpc_test

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/errs"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

func TestPrepareTakesTheAmountFromTicket(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	require.Equal(t, amount, p.GetAmount())
	require.Equal(t, "KRW", p.GetCurrency())
	require.Equal(t, "sandbox", p.GetProvider())
	got := b.get(p)
	require.Equal(t, "PREPARED", got.GetStatus())
	require.Equal(t, ref, got.GetReferenceId())
	require.Equal(t, "demo", got.GetEventId())
	require.Len(t, got.GetTimeline(), 1)
}

func TestOneOpenPaymentPerReference(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.tickets.Add(user, amount, holdTime)
	var requests sync.WaitGroup
	ids, failures := make([]string, 12), make([]error, 12)
	for i := range ids {
		requests.Go(func() {
			p, err := b.prepare(ref, newIdempotencyKey())
			ids[i], failures[i] = p.GetPaymentId(), err
		})
	}
	requests.Wait()
	require.NoError(t, errors.Join(failures...))
	require.Len(t, slices.Compact(ids), 1)
}

func TestPrepareErrors(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.tickets.Add("bob", amount, holdTime)
	_, err := b.prepare(ref, newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrReferenceNotFound, "somebody else's")
	_, err = b.prepare(ref, "")
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyRequired)
	_, err = b.prepare(ref, "ключ")
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyInvalid)
	_, err = b.prepare("no-uuid", newIdempotencyKey())
	require.Equal(t, errs.Invalid, errs.From(err).Kind)
	_, err = b.client.Prepare(t.Context(), &paymentv1.PrepareRequest{PaymentType: "reservation", ReferenceId: ref})
	require.ErrorIs(t, err, errs.ErrUnauthenticated)
	b.tickets.Fail("Payable", errs.ErrNotPayable)
	_, err = b.prepare(ref, newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrNotPayable)
}

func TestPrepareIsRepeatableByKey(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref, key := b.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	first, err := b.prepare(ref, key)
	require.NoError(t, err)
	_, err = b.confirm(first, "ok-1", newIdempotencyKey())
	require.NoError(t, err)
	b.tickets.Fail("Payable", errs.ErrAlreadyPaid)

	again, err := b.prepare(ref, key)
	require.NoError(t, err, "the first answer stands, whatever became of the reference")
	require.Equal(t, first.GetPaymentId(), again.GetPaymentId())
	_, err = b.prepare(b.tickets.Add(user, amount, holdTime), key)
	require.ErrorIs(t, err, errs.ErrIdempotencyKeyReused)

	b.exec(`UPDATE idempotency_keys SET created_at = created_at - interval '24 hours'`)
	b.tickets.Fail("Payable")
	other, err := b.prepare(b.tickets.Add(user, amount, holdTime), key)
	require.NoError(t, err, "keys are forgotten after a day")
	require.NotEqual(t, first.GetPaymentId(), other.GetPaymentId())
}

func TestPaidReferenceIsNotPaidAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	_, ref := b.confirmed()
	_, err := b.prepare(ref, newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrAlreadyPaid, "also before ticket has heard of it")
}

func TestStalePaymentIsReplaced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, ref := b.prepared()
	b.exec(`UPDATE payments SET amount = amount + 1 WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
	next, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	require.NotEqual(t, p.GetPaymentId(), next.GetPaymentId())
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
}

func TestPreparedPaymentExpires(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	b.sweep(holdTime - time.Microsecond)
	require.Equal(t, "PREPARED", b.get(p).GetStatus())
	b.sweep(time.Microsecond)
	require.Equal(t, "EXPIRED", b.get(p).GetStatus())
	_, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.ErrorIs(t, err, errs.ErrHoldExpired)
	require.Zero(t, b.provider.Calls(paymenttest.Charges))
}

func TestPaymentsArePrivate(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.prepared()
	in := &paymentv1.GetPaymentRequest{Caller: caller("bob", ""), PaymentId: p.GetPaymentId()}
	_, err := b.client.GetPayment(t.Context(), in)
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
	in.Caller.Roles = []string{"admin"}
	_, err = b.client.GetPayment(t.Context(), in)
	require.NoError(t, err)
	_, err = b.client.Confirm(t.Context(), &paymentv1.ConfirmRequest{
		Caller: caller("bob", newIdempotencyKey()), OrderId: p.GetOrderId(), PaymentKey: "ok-1", Amount: proto.Int64(amount),
	})
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
}
