package rpc

import (
	"google.golang.org/protobuf/types/known/timestamppb"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

// pending is the API's status of a charge whose outcome is unknown.
const pending = "PENDING"

func status(s payment.Status) string {
	if s.Unsettled() {
		return pending
	}
	return string(s)
}

func toPrepared(p payment.Payment, clientParams map[string]string) *paymentv1.PrepareResponse {
	return &paymentv1.PrepareResponse{
		PaymentId: p.ID.String(), OrderId: p.OrderID, Amount: p.Amount, Currency: p.Currency, Provider: p.Provider,
		ClientParams: clientParams, ExpiresAt: timestamppb.New(p.ExpiresAt),
	}
}

func toConfirmed(a payment.Answer) *paymentv1.ConfirmResponse {
	return &paymentv1.ConfirmResponse{
		Status: status(a.Status), DeclineCode: optional(a.DeclineCode), PaymentId: a.PaymentID.String(),
	}
}

func toPayment(p payment.Payment, timeline []payment.Entry) *paymentv1.Payment {
	out := &paymentv1.Payment{
		PaymentId: p.ID.String(), OrderId: p.OrderID, PaymentType: string(p.Reference.Type), ReferenceId: p.Reference.ID.String(),
		EventId: p.EventID, Amount: p.Amount, Currency: p.Currency, Provider: p.Provider, Status: status(p.Status),
		DeclineCode: optional(p.DeclineCode), RefundedAmount: refundedAmount(p),
		CreatedAt: timestamppb.New(p.CreatedAt), ExpiresAt: timestamppb.New(p.ExpiresAt),
		Timeline: make([]*paymentv1.TimelineEntry, len(timeline)),
	}
	for i, e := range timeline {
		out.Timeline[i] = &paymentv1.TimelineEntry{At: timestamppb.New(e.At), Status: status(e.Status), Note: e.Note}
	}
	return out
}

// refundedAmount returns the refunded part of the payment's amount. A charge of a wrong amount was
// no payment.
func refundedAmount(p payment.Payment) int64 {
	if p.Captured != p.Amount {
		return 0
	}
	return p.Refunded
}

func optional(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
