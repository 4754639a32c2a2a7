package rpc

import (
	"context"

	"google.golang.org/protobuf/types/known/emptypb"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
)

// BeginRefund claims tickets, or the membership, of a payment for a refund.
func (s *Payables) BeginRefund(ctx context.Context, req *ticketv1.BeginRefundRequest) (*ticketv1.RefundClaim, error) {
	r, err := toRefundRequest(req)
	if err != nil {
		return nil, err
	}
	c, err := s.refunds.Begin(ctx, r)
	if err != nil {
		return nil, err
	}
	return fromClaim(c), nil
}

func (s *Payables) AbortRefund(ctx context.Context, req *ticketv1.AbortRefundRequest) (*emptypb.Empty, error) {
	id, err := parseID(req.GetRefundId())
	if err != nil {
		return nil, err
	}
	if err := s.refunds.Abort(ctx, id); err != nil {
		return nil, err
	}
	return &emptypb.Empty{}, nil
}

func (s *Payables) GetMembershipPayment(
	ctx context.Context, req *ticketv1.GetMembershipPaymentRequest,
) (*ticketv1.MembershipPayment, error) {
	id, err := parseID(req.GetMembershipId())
	if err != nil {
		return nil, err
	}
	payment, err := s.paid.PaidBy(ctx, id)
	if err != nil {
		return nil, err
	}
	return &ticketv1.MembershipPayment{PaymentId: payment.String()}, nil
}

func toRefundRequest(req *ticketv1.BeginRefundRequest) (r refund.Request, err error) {
	r = refund.Request{
		Cause: refund.Cause(req.GetCause()), UserID: req.GetUserId(), KeepFees: req.Fees != nil && !req.GetFees(), Whole: req.GetWhole(),
		HandLimit: req.GetHandLimit(), AskedAt: req.GetAskedAt().AsTime(), Shown: req.ShownAmount,
		Membership: req.GetPaymentType() == string(purchase.Membership),
	}
	r.AwaitsTickets = r.Membership || req.GetPaymentType() == string(purchase.Reservation)
	if r.ID, err = parseID(req.GetRefundId()); err != nil {
		return r, err
	}
	if r.PaymentID, err = parseID(req.GetPaymentId()); err != nil {
		return r, err
	}
	for _, text := range req.GetTicketIds() {
		id, err := parseID(text)
		if err != nil {
			return r, err
		}
		r.TicketIDs = append(r.TicketIDs, id)
	}
	return r, nil
}

func fromClaim(c *refund.Claim) *ticketv1.RefundClaim {
	out := &ticketv1.RefundClaim{Status: string(c.Status), Reason: c.Reason, PresentAmount: c.PresentAmount}
	if c.Status != refund.Aborted { // else the membership is valid again
		out.MembershipAmount = c.MembershipAmount
	}
	for _, item := range c.Items {
		if c.Status == refund.Aborted { // its tickets are valid again
			break
		}
		out.Items = append(out.Items, &ticketv1.RefundClaimItem{TicketId: item.TicketID.String(), Amount: item.Amount})
	}
	for _, p := range c.Excluded {
		out.Problems = append(out.Problems, &ticketv1.ExcludedTicket{TicketId: p.TicketID.String(), Reason: p.Reason})
	}
	return out
}
