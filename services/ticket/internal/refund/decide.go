package refund

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/ticket"
)

// AskedWithin is the age at which a request is refused: its stored answer may be deleted by then.
const AskedWithin = 7 * 24 * time.Hour

// Terms are what the decision on a refund needs to know about the event. They are read after all
// locks are taken.
type Terms struct {
	event.Closing

	Now time.Time
}

// takesUserRefunds reports whether users may give tickets back now. The event's settings decide,
// but for some time after a postponement users always may.
func (s *Terms) takesUserRefunds() bool {
	return s.Now.Before(s.userRefundsUntil())
}

// keepsFees reports whether users get no fees back: always, except for a time after a postponement.
func (s *Terms) keepsFees() bool { return !s.Now.Before(s.FeesUntil) }

// userRefundsUntil returns the time until which users may give tickets back; zero: they may not.
func (s *Terms) userRefundsUntil() (until time.Time) {
	if s.UserRefunds {
		until = s.RefundUntil
	}
	if !s.keepsFees() && s.FeesUntil.After(until) {
		until = s.FeesUntil
	}
	return until
}

// Decide answers a request for a refund, and changes the tickets that it claims. tickets are those
// with the ids in the request, or all of the payment if it has no ids. Their rows must be locked.
func Decide(req Request, tickets []*ticket.Ticket, terms Terms) Claim {
	c := Claim{ID: req.ID, PaymentID: req.PaymentID, Cause: req.Cause, Status: Begun, BegunAt: terms.Now}
	if req.Cause == ByHand && !req.Whole { // a person has to say which tickets the money was for
		return c
	}
	if reason := refusal(&req, &terms); reason != "" && req.Cause != ByHand {
		return c.Refuse(reason)
	}
	if req.Cause != ByHand && len(tickets) == 0 && len(req.TicketIDs) == 0 && req.AwaitsTickets {
		return c.Refuse(ReasonTicketsPending)
	}
	var claimed []*ticket.Ticket
	for _, t := range tickets {
		if problem := problemOf(&req, t, &terms); problem != "" {
			c.Problems = append(c.Problems, Problem{TicketID: t.ID, Reason: problem})
			continue
		}
		claimed = append(claimed, t)
	}
	c.addMissing(&req, tickets)
	if req.Cause != ByHand && (len(claimed) == 0 || (len(req.TicketIDs) > 0 && len(c.Problems) > 0)) {
		return c.Refuse(ReasonNotRefundable)
	}
	for _, t := range claimed {
		amount := refundAmount(&req, t, &terms)
		t.Claim(req.ID, amount)
		c.Items = append(c.Items, Item{TicketID: t.ID, Amount: amount})
	}
	return c
}

// refundAmount returns the amount that a refund of a ticket gives back: what its holder has paid,
// less what was given back before and what the organiser keeps.
func refundAmount(req *Request, t *ticket.Ticket, terms *Terms) int64 {
	var kept int64
	byUser := req.Cause == User && terms.keepsFees()
	if byUser || req.KeepFees {
		kept = t.Fee
	}
	if byUser {
		kept += terms.CancellationFees.Kept(t.Paid-t.Fee, terms.Now)
	}
	return max(0, t.Paid-t.GivenBack-kept)
}

// Offer says whether a ticket's holder could give the ticket back now, and for how much.
type Offer struct {
	// Until is the time until which users may give tickets back; zero: they may not.
	Until  time.Time
	Amount int64
	// Reason is why the ticket cannot be given back; empty: it can.
	Reason string
}

// OfferTo returns what Decide would answer now if the ticket's holder asked for a refund of it.
func OfferTo(t *ticket.Ticket, terms Terms) Offer {
	req := Request{PaymentID: t.PaymentID, Cause: User, UserID: t.UserID, AskedAt: terms.Now}
	o := Offer{Amount: refundAmount(&req, t, &terms), Until: terms.userRefundsUntil()}
	if o.Reason = refusal(&req, &terms); o.Reason == "" {
		o.Reason = problemOf(&req, t, &terms)
	}
	if t.PaymentID == uuid.Nil && (o.Reason == "" || t.Status == ticket.Valid) {
		o.Reason = ReasonNotPaid
	}
	return o
}

// Refuse makes c the refusal of its request, and returns it.
func (c *Claim) Refuse(reason string) Claim {
	c.Status, c.Reason = Refused, reason
	return *c
}

// refusal returns the reason why a request is refused whichever tickets it asks for; empty: none.
// If the event is cancelled, requests are refused, since all its tickets are refunded without one.
func refusal(req *Request, terms *Terms) string {
	switch {
	case !terms.Now.Before(req.AskedAt.Add(AskedWithin)):
		return ReasonTooOld
	case !terms.State.TakesPlace():
		return ReasonEventCancelled
	default:
		return ""
	}
}

// problemOf returns the reason why a request cannot claim a ticket; empty: it can.
func problemOf(req *Request, t *ticket.Ticket, terms *Terms) string {
	switch {
	case t.PaymentID != req.PaymentID, req.Cause == User && t.UserID != req.UserID:
		return ProblemNotYours
	case t.Status != ticket.Valid:
		return string(t.Status)
	case req.Cause == User && !terms.takesUserRefunds() && !terms.UserRefunds:
		return ProblemNoRefunds
	case req.Cause == User && !terms.takesUserRefunds():
		return ProblemTooLate
	case req.Cause == ByHand && !terms.Now.Before(terms.ClosesAt): // the lists of doors may have the ticket
		return ProblemTooLate
	default:
		return ""
	}
}

// addMissing adds a problem for each ticket id in the request that no ticket has.
func (c *Claim) addMissing(req *Request, tickets []*ticket.Ticket) {
	for _, id := range req.TicketIDs {
		if !slices.ContainsFunc(tickets, func(t *ticket.Ticket) bool { return t.ID == id }) {
			c.Problems = append(c.Problems, Problem{TicketID: id, Reason: ProblemNotYours})
		}
	}
}
