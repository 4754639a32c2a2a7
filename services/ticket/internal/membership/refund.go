package membership

import (
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

// DecideRefund answers a request for a refund of a membership's payment, and claims the membership.
// m is nil if the payment has paid for no membership. Only operators can refund memberships, as a
// whole, and at any time. A refund that a person has made at the provider claims the membership
// only if nothing is left of the payment.
func DecideRefund(req refund.Request, m *Membership, now time.Time) refund.Claim {
	c := refund.Claim{ID: req.ID, PaymentID: req.PaymentID, Cause: req.Cause, Status: refund.Begun, BegunAt: now}
	if req.Cause == refund.ByHand {
		if !req.Whole || m == nil || m.Status != Active {
			return c
		}
	} else if reason := refusal(&req, m, now); reason != "" {
		return c.Refuse(reason)
	} else if req.RefuseLess(&c, m.Price-m.GivenBack) {
		return c
	}
	c.MembershipID, c.MembershipAmount = m.ID, m.Price-m.GivenBack
	m.Status, m.RefundID, m.GivenBack = Refunding, req.ID, m.Price
	m.Version++
	return c
}

// refusal returns the reason why a membership is not refunded; empty: it is.
func refusal(req *refund.Request, m *Membership, now time.Time) string {
	switch {
	case !now.Before(req.AskedAt.Add(refund.AskedWithin)):
		return refund.ReasonTooOld
	case req.Cause != refund.Operator || len(req.TicketIDs) > 0:
		return refund.ReasonNotRefundable
	case m == nil && req.AwaitsTickets:
		return refund.ReasonTicketsPending
	case m == nil || m.Status != Active:
		return refund.ReasonNotRefundable
	default:
		return ""
	}
}

// Unclaim undoes the claim of a refund that the provider has refused.
func (m *Membership) Unclaim(claim uuid.UUID, amount int64) error {
	if m.Status != Refunding || m.RefundID != claim {
		return m.notClaimed(claim)
	}
	m.Status, m.RefundID = Active, uuid.Nil
	m.GivenBack -= amount
	m.Version++
	return nil
}

func (m *Membership) notClaimed(claim uuid.UUID) error {
	return fmt.Errorf("membership %s is %s and claimed by refund %s, not by %s: %w", m.ID, m.Status, m.RefundID, claim, ticket.ErrNotClaimed)
}

// EndRefund ends a membership whose refund was made. Of others, the user's other memberships of the
// plan, those that were to begin after this one begin earlier: one after the other, once the
// current ones end. So the user does not wait for the end of a refunded membership.
func (m *Membership) EndRefund(claim uuid.UUID, cause refund.Cause, others []*Membership, now time.Time) error {
	if m.Status != Refunding || m.RefundID != claim {
		return m.notClaimed(claim)
	}
	m.Status = Ended
	m.Version++
	m.emit(EventEnded, string(cause), m.PaymentID, now)
	var later []*Membership
	start := latest(now, m.StartsAt)
	for _, o := range others {
		switch {
		case !o.lasts():
		case !o.StartsAt.Before(m.EndsAt) && o.StartsAt.After(now):
			later = append(later, o)
		default:
			start = latest(start, o.EndsAt)
		}
	}
	slices.SortFunc(later, func(a, b *Membership) int { return a.StartsAt.Compare(b.StartsAt) })
	for _, o := range later {
		o.begin(start)
		start = o.EndsAt
	}
	return nil
}
