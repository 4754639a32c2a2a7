package rpc

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/cursor"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/payment"
)

// defaultLimit is the number of items in a list's page if the request sets none.
const defaultLimit = 20

func (s *Server) RefundPayment(ctx context.Context, in *paymentv1.RefundPaymentRequest) (*paymentv1.Refund, error) {
	user, err := rpc.UserFrom(in)
	if err != nil {
		return nil, err
	}
	return s.askRefund(ctx, in.GetPaymentId(), in.GetTicketIds(), payment.RefundRequest{
		Cause: payment.ByUser, Reason: in.GetReason(), Scope: payment.RefundScope{UserID: user, Shown: in.Amount},
		IdempotencyKey: in.GetCaller().GetIdempotencyKey(),
	})
}

func (s *Server) RefundAnyPayment(ctx context.Context, in *paymentv1.RefundAnyPaymentRequest) (*paymentv1.Refund, error) {
	user, err := rpc.RequireRole(in, roleAdmin)
	if err != nil {
		return nil, err
	}
	return s.askRefund(ctx, in.GetPaymentId(), in.GetTicketIds(), payment.RefundRequest{
		Cause: payment.ByOperator, Reason: in.GetReason(), Scope: payment.RefundScope{UserID: user, Fees: in.Fees, Shown: in.Amount},
		IdempotencyKey: in.GetCaller().GetIdempotencyKey(),
	})
}

func (s *Server) AssignByHand(ctx context.Context, in *paymentv1.AssignByHandRequest) (*paymentv1.Refund, error) {
	user, err := rpc.RequireRole(in, roleAdmin)
	if err != nil {
		return nil, err
	}
	return s.askRefund(ctx, in.GetPaymentId(), in.GetTicketIds(), payment.RefundRequest{
		Cause: payment.ByHand, Reason: in.GetNote(), IdempotencyKey: in.GetCaller().GetIdempotencyKey(),
		Scope: payment.RefundScope{UserID: user, Goodwill: in.GetGoodwill(), Shown: in.Unassigned},
	})
}

func (s *Server) RefundMembership(ctx context.Context, in *paymentv1.RefundMembershipRequest) (*paymentv1.Refund, error) {
	user, err := rpc.RequireRole(in, roleAdmin)
	if err != nil {
		return nil, err
	}
	id, err := uuid.Parse(in.GetMembershipId())
	if err != nil {
		return nil, errs.ErrInvalidID.Wrap(err)
	}
	r, err := s.payments.RefundMembership(ctx, id, payment.RefundRequest{
		Cause: payment.ByOperator, Reason: in.GetReason(), Scope: payment.RefundScope{UserID: user}, IdempotencyKey: in.GetCaller().GetIdempotencyKey(),
	})
	if err != nil {
		return nil, err
	}
	return toRefund(r), nil
}

func (s *Server) askRefund(ctx context.Context, paymentID string, tickets []string, q payment.RefundRequest) (*paymentv1.Refund, error) {
	var err error
	if q.PaymentID, err = uuid.Parse(paymentID); err != nil {
		return nil, errs.ErrInvalidID.Wrap(err)
	}
	for _, text := range tickets {
		id, err := uuid.Parse(text)
		if err != nil {
			return nil, errs.ErrInvalidID.Wrap(err)
		}
		q.Scope.TicketIDs = append(q.Scope.TicketIDs, id)
	}
	r, err := s.payments.AskRefund(ctx, q)
	if err != nil {
		return nil, err
	}
	return toRefund(r), nil
}

func (s *Server) ListRefunds(ctx context.Context, in *paymentv1.ListRefundsRequest) (*paymentv1.ListRefundsResponse, error) {
	if _, err := rpc.RequireRole(in, roleAdmin); err != nil {
		return nil, err
	}
	before, err := cursor.ParseID(in.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := int(in.GetLimit())
	if limit == 0 {
		limit = defaultLimit
	}
	list, next, err := s.payments.ListRefunds(ctx, payment.RefundStatus(in.GetStatus()), limit, before)
	if err != nil {
		return nil, err
	}
	out := &paymentv1.ListRefundsResponse{Items: make([]*paymentv1.RefundDetail, len(list)), NextCursor: cursor.ID(next)}
	for i, d := range list {
		out.Items[i] = toDetail(d)
	}
	return out, nil
}

func (s *Server) HoldRefund(ctx context.Context, in *paymentv1.HoldRefundRequest) (*paymentv1.Refund, error) {
	return decideRefund(in, in.GetRefundId(), func(id uuid.UUID) (payment.Refund, error) { return s.payments.HoldRefund(ctx, id) })
}

func (s *Server) RetryRefund(ctx context.Context, in *paymentv1.RetryRefundRequest) (*paymentv1.Refund, error) {
	return decideRefund(in, in.GetRefundId(), func(id uuid.UUID) (payment.Refund, error) {
		return s.payments.RetryRefund(ctx, id, in.Unassigned)
	})
}

func (s *Server) ResolveRefund(ctx context.Context, in *paymentv1.ResolveRefundRequest) (*paymentv1.Refund, error) {
	return decideRefund(in, in.GetRefundId(), func(id uuid.UUID) (payment.Refund, error) {
		return s.payments.ResolveRefund(ctx, id, !in.GetPaidOtherwise(), in.GetNote())
	})
}

// decideRefund checks an operator's request about a refund, and calls decide.
func decideRefund(in any, refundID string, decide func(id uuid.UUID) (payment.Refund, error)) (*paymentv1.Refund, error) {
	if _, err := rpc.RequireRole(in, roleAdmin); err != nil {
		return nil, err
	}
	id, err := uuid.Parse(refundID)
	if err != nil {
		return nil, errs.ErrInvalidID.Wrap(err)
	}
	r, err := decide(id)
	if err != nil {
		return nil, err
	}
	return toRefund(r), nil
}
