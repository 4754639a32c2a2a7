package rpc

import (
	"cmp"
	"context"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

// statusWarned is the status with which ListDisputes returns payments of which issuers warn.
const statusWarned = "WARNED"

func (s *Server) ListDisputes(ctx context.Context, in *paymentv1.ListDisputesRequest) (*paymentv1.ListDisputesResponse, error) {
	if _, err := rpc.RequireRole(in, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(in.GetCursor())
	if err != nil {
		return nil, err
	}
	list, next, err := s.payments.ListDisputes(ctx, in.GetStatus() == statusWarned, cmp.Or(int(in.GetLimit()), defaultLimit), before)
	if err != nil {
		return nil, err
	}
	out := &paymentv1.ListDisputesResponse{Items: make([]*paymentv1.Dispute, len(list)), NextCursor: cursor.ID(next)}
	for i, p := range list {
		out.Items[i] = toDispute(p)
	}
	return out, nil
}

func toDispute(p payment.Payment) *paymentv1.Dispute {
	return &paymentv1.Dispute{
		PaymentId: p.ID.String(), OrderId: p.OrderID, ChargeId: p.ChargeID, Provider: p.Provider, UserId: p.UserID, EventId: p.EventID,
		Amount: p.Amount, Refunded: p.Refunded, Currency: p.Currency, DisputedAt: toTime(p.DisputedAt), EvidenceDueAt: toTime(p.EvidenceDue),
		WarnedAt: toTime(p.WarnedAt), FraudType: p.FraudType,
	}
}
