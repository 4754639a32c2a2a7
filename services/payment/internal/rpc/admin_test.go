package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

// Operators see all payments of a reference or an order, even declined ones, and their refunds with
// the stored statuses.
func TestFindPayments(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ref := b.tickets.Add(user, amount, holdTime)
	declined, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	_, err = b.confirm(declined, "decline-1", newIdempotencyKey())
	require.NoError(t, err)
	other, _ := b.paid(amount)
	refund := b.ask(other, payment.ByUser, newIdempotencyKey())
	operator := &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}

	find := func(in *paymentv1.FindPaymentsRequest) []*paymentv1.PaymentDetail {
		t.Helper()
		in.Caller = operator
		out, err := b.admins.FindPayments(t.Context(), in)
		require.NoError(t, err)
		return out.GetPayments()
	}
	byOrder := func(id string) *paymentv1.FindPaymentsRequest {
		return &paymentv1.FindPaymentsRequest{By: &paymentv1.FindPaymentsRequest_OrderId{OrderId: id}}
	}
	byReference := func(id string) *paymentv1.FindPaymentsRequest {
		return &paymentv1.FindPaymentsRequest{By: &paymentv1.FindPaymentsRequest_Reference{
			Reference: &paymentv1.PaymentReference{PaymentType: "reservation", ReferenceId: id},
		}}
	}
	again, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	list := find(byReference(ref))
	require.Len(t, list, 2)
	require.Equal(t, []string{declined.GetPaymentId(), again.GetPaymentId()}, []string{list[0].GetPaymentId(), list[1].GetPaymentId()})
	require.Equal(t, "DECLINED", list[0].GetStatus())
	require.NotEmpty(t, list[0].GetDeclineCode())
	require.Equal(t, "PREPARED", list[1].GetStatus())
	require.NotEmpty(t, list[0].GetTimeline())

	list = find(byOrder(other.GetOrderId()))
	require.Len(t, list, 1)
	require.Equal(t, user, list[0].GetUserId())
	require.Equal(t, amount, list[0].GetCaptured())
	require.NotEmpty(t, list[0].GetChargeId())
	require.Len(t, list[0].GetRefunds(), 1)
	require.Equal(t, refund.ID.String(), list[0].GetRefunds()[0].GetRefundId())
	require.Equal(t, string(refund.Status), list[0].GetRefunds()[0].GetStatus())
	require.Equal(t, "asked", list[0].GetRefunds()[0].GetReason())

	require.Empty(t, find(byOrder("unknown")))
	require.Empty(t, find(byReference(uuid.NewString())))
	for reason, caller := range map[string]*commonv1.Caller{"UNAUTHENTICATED": nil, "ROLE_REQUIRED": {UserId: user}} {
		in := byReference(ref)
		in.Caller = caller
		_, err := b.admins.FindPayments(t.Context(), in)
		require.Equal(t, reason, errs.From(err).Reason)
	}
	_, err = b.admins.FindPayments(t.Context(), &paymentv1.FindPaymentsRequest{Caller: operator})
	require.Equal(t, "INVALID_REQUEST", errs.From(err).Reason)
}
