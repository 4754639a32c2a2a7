package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/durationpb"

	"urr.guru/pkg/errs"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/rpc"
)

func TestPayablesOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	e := putEvent("e", "ASSIGNED", rows("A", 1, 5))
	e.Spec.StatementSuffix = new("AUTUMN")
	c.put(t, e)
	c.put(t, putEvent("g", "GENERAL", admissions("S", 5)))
	r := c.holdSeats(t, "u", "A-1-1", "A-1-2")
	id, payment := r.GetReservationId(), uuid.NewString()
	get := func(typ, id, user string) (*ticketv1.Payable, error) {
		return c.GetPayable(ctx, &ticketv1.GetPayableRequest{PaymentType: typ, ReferenceId: id, UserId: user})
	}
	p, err := get("reservation", id, "u")
	require.NoError(t, err)
	require.EqualValues(t, 110000, p.GetAmount())
	require.Equal(t, "KRW", p.GetCurrency())
	require.Equal(t, "e", p.GetEventId())
	require.Equal(t, "Concert: A-1-1, A-1-2", p.GetDescription())
	require.Equal(t, "AUTUMN", p.GetStatementSuffix())
	require.Equal(t, r.GetExpiresAt().AsTime(), p.GetExpiresAt().AsTime())
	for _, typ := range []string{"transfer", "membership"} {
		_, err = get(typ, id, "u")
		requireReason(t, err, "REFERENCE_NOT_FOUND")
		_, err = c.BeginPayment(ctx, &ticketv1.BeginPaymentRequest{PaymentType: typ, ReferenceId: id, PaymentId: payment, UserId: "u"})
		requireReason(t, err, "REFERENCE_NOT_FOUND")
		_, err = c.AbortPayment(ctx, &ticketv1.AbortPaymentRequest{PaymentType: typ, ReferenceId: id, PaymentId: payment})
		requireReason(t, err, "REFERENCE_NOT_FOUND")
	}
	_, err = get("gift", id, "u")
	requireReason(t, err, "INVALID_REQUEST", "paymentType")
	_, err = get("reservation", id, "v")
	requireReason(t, err, "REFERENCE_NOT_FOUND")
	_, err = get("reservation", id, "")
	requireReason(t, err, "INVALID_REQUEST", "userId")

	begin := &ticketv1.BeginPaymentRequest{PaymentType: "reservation", ReferenceId: id, PaymentId: payment, UserId: "u"}
	p, err = c.BeginPayment(ctx, begin)
	require.NoError(t, err)
	c.requireIn(t, purchase.PayWithin, p.GetExpiresAt())
	_, err = c.BeginPayment(ctx, &ticketv1.BeginPaymentRequest{PaymentType: "reservation", ReferenceId: id, PaymentId: uuid.NewString(), UserId: "u"})
	requireReason(t, err, "PAYMENT_IN_PROGRESS")
	_, err = c.BeginPayment(ctx, &ticketv1.BeginPaymentRequest{PaymentType: "reservation", ReferenceId: id, PaymentId: "x", UserId: "u"})
	requireReason(t, err, "INVALID_REQUEST", "paymentId")
	_, err = c.AbortPayment(ctx, &ticketv1.AbortPaymentRequest{PaymentType: "reservation", ReferenceId: id, PaymentId: payment})
	require.NoError(t, err)
	got, err := c.GetMyReservation(ctx, &ticketv1.GetReservationRequest{Caller: signedIn("u"), ReservationId: id})
	require.NoError(t, err)
	require.Equal(t, "HELD", got.GetStatus())

	res, err := c.HoldBest(ctx, &ticketv1.HoldBestRequest{Items: []*ticketv1.HoldBestItem{{Caller: inside("u", "g"), EventId: "g", Section: "S", Quantity: 3}}})
	require.NoError(t, err)
	p, err = get("reservation", res.GetResults()[0].GetReservation().GetReservationId(), "u")
	require.NoError(t, err)
	require.Equal(t, "Concert: 3 × S", p.GetDescription())
	require.Empty(t, p.GetStatementSuffix())

	settlement, err := c.GetSettlement(ctx, &ticketv1.GetSettlementRequest{})
	require.NoError(t, err)
	require.EqualValues(t, 90_000, settlement.GetOldestUnappliedMs())
	require.EqualValues(t, 3_000, settlement.GetMeasuredAgoMs())
	require.Equal(t, (30 * time.Minute).Milliseconds(), settlement.GetHoldMaxExtensionMs())
}

func TestPagesOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	id, payment := c.holdSeats(t, "u", "A-1-1").GetReservationId(), uuid.NewString()
	p, err := c.BeginPayment(t.Context(), &ticketv1.BeginPaymentRequest{
		PaymentType: "reservation", ReferenceId: id, PaymentId: payment, UserId: "u", Within: durationpb.New(12 * time.Minute), Opens: true,
	})
	require.NoError(t, err)
	c.requireIn(t, 12*time.Minute, p.GetExpiresAt())
	out, err := c.ExtendPayments(t.Context(), &ticketv1.ExtendPaymentsRequest{Payments: []*ticketv1.PaymentUnderWay{
		{PaymentType: "reservation", ReferenceId: id, PaymentId: payment},
		{PaymentType: "reservation", ReferenceId: id, PaymentId: uuid.NewString()},
		{PaymentType: "transfer", ReferenceId: id, PaymentId: payment},
	}})
	require.NoError(t, err)
	require.Equal(t, []string{payment}, out.GetPaymentIds(), "a kind that is not sold hinders no other")
}

// A replica that has not measured the age of payment events yet must not report the age 0.
func TestUnknownSettlementAge(t *testing.T) {
	t.Parallel()
	_, err := rpc.NewPayables(nil, nil, nil, age(0), nil, nil, 0).GetSettlement(t.Context(), &ticketv1.GetSettlementRequest{})
	require.ErrorIs(t, err, errs.ErrUnavailable)
}
