package rpc

import (
	"context"

	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

func (s *Server) FindPayments(ctx context.Context, in *paymentv1.FindPaymentsRequest) (*paymentv1.FindPaymentsResponse, error) {
	if _, err := rpc.RequireRole(in, roleAdmin); err != nil {
		return nil, err
	}
	var list []payment.View
	var err error
	if reference := in.GetReference(); reference != nil {
		id, parseErr := uuid.Parse(reference.GetReferenceId())
		if parseErr != nil {
			return nil, errs.ErrInvalidID.Wrap(parseErr)
		}
		list, err = s.payments.ByReference(ctx, payment.Reference{Type: payment.Type(reference.GetPaymentType()), ID: id})
	} else {
		list, err = s.payments.ByOrderID(ctx, in.GetOrderId())
	}
	if err != nil {
		return nil, err
	}
	out := &paymentv1.FindPaymentsResponse{Payments: make([]*paymentv1.PaymentDetail, len(list))}
	for i, p := range list {
		out.Payments[i] = toPaymentDetail(p)
	}
	return out, nil
}

func toPaymentDetail(shown payment.View) *paymentv1.PaymentDetail {
	p := shown.Payment
	out := &paymentv1.PaymentDetail{
		PaymentId: p.ID.String(), OrderId: p.OrderID, ChargeId: p.ChargeID, PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(),
		UserId: p.UserID, EventId: p.EventID, Provider: p.Provider, Status: string(p.Status), DeclineCode: p.DeclineCode, Amount: p.Amount,
		Captured: p.Captured, Refunded: p.Refunded, ByHand: p.RefundedByHand, ByHandUsed: p.ByHandCounted, Goodwill: p.Goodwill,
		Unassigned: p.Unassigned(), Currency: p.Currency, CreatedAt: timestamppb.New(p.CreatedAt),
		ExpiresAt: timestamppb.New(p.ExpiresAt), DisputedAt: toTime(p.DisputedAt),
		EvidenceDueAt: toTime(p.EvidenceDue), WarnedAt: toTime(p.WarnedAt), FraudType: p.FraudType, Timeline: make([]*paymentv1.TimelineEntry, len(shown.Timeline)),
		Refunds: make([]*paymentv1.RefundDetail, len(shown.Refunds)),
	}
	for i, e := range shown.Timeline {
		out.Timeline[i] = &paymentv1.TimelineEntry{At: timestamppb.New(e.At), Status: string(e.Status), Note: e.Note}
	}
	for i, r := range shown.Refunds {
		out.Refunds[i] = toDetail(payment.DueRefund{Refund: r, Payment: p})
	}
	return out
}
