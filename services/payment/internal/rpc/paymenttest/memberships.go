package paymenttest

import (
	"context"

	"urr.guru/pkg/errs"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Membership is a membership that was bought with a payment.
type Membership struct {
	ID string
	// Paid is its price, Given the part of Paid that was refunded, or is claimed for a refund.
	Paid, Given int64
	Status      string // ACTIVE or REFUNDING
}

// Activate adds the membership that was bought with a payment.
func (t *Tickets) Activate(paymentID, membershipID string, paid int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.memberships[paymentID] = &Membership{ID: membershipID, Paid: paid, Status: "ACTIVE"}
}

// Membership returns the membership that was bought with a payment; zero: there is none.
func (t *Tickets) Membership(paymentID string) Membership {
	t.mu.Lock()
	defer t.mu.Unlock()
	if m := t.memberships[paymentID]; m != nil {
		return *m
	}
	return Membership{}
}

func (t *Tickets) GetMembershipPayment(_ context.Context, in *ticketv1.GetMembershipPaymentRequest) (*ticketv1.MembershipPayment, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("MembershipPayment"); err != nil {
		return nil, err
	}
	for payment, m := range t.memberships {
		if m.ID == in.GetMembershipId() {
			return &ticketv1.MembershipPayment{PaymentId: payment}, nil
		}
	}
	return nil, errs.ErrMembershipNotFound
}

// decideMembership answers the first BeginRefund for a membership. The caller holds the lock.
func (t *Tickets) decideMembership(in *ticketv1.BeginRefundRequest) *ticketv1.RefundClaim {
	m := t.memberships[in.GetPaymentId()]
	switch active := m.Status == "ACTIVE"; {
	case in.GetCause() == "BY_HAND" && (!in.GetWhole() || !active):
		return &ticketv1.RefundClaim{Status: "BEGUN"}
	case !active || in.GetCause() == "USER":
		return &ticketv1.RefundClaim{Status: "REFUSED", Reason: "NOT_REFUNDABLE"}
	}
	amount := m.Paid - m.Given
	m.Status, m.Given = "REFUNDING", m.Paid
	return &ticketv1.RefundClaim{Status: "BEGUN", MembershipAmount: amount}
}

// abortMembership makes the membership of a claim ACTIVE again. The caller holds the lock.
func (t *Tickets) abortMembership(c claim) {
	if m := t.memberships[c.paymentID]; m != nil && c.answer.GetMembershipAmount() > 0 {
		m.Status = "ACTIVE"
		m.Given -= c.answer.GetMembershipAmount()
	}
}
