package refund

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/ticket"
)

// AskedWithin is the age from which on a request is refused: its answer may have been deleted.
const AskedWithin = 7 * 24 * time.Hour

// Sale has the facts of one event at the time of the decision, after all locks.
type Sale struct {
	event.Closing

	Now time.Time
}

// takesUserRefunds reports whether users may give tickets back: as the event is set, and in any case
// for a while after it was postponed.
func (s *Sale) takesUserRefunds() bool {
	return s.Now.Before(s.userRefundsUntil())
}

// keepsFees reports whether users get no fees back, as they do for a while after the event was
// postponed.
func (s *Sale) keepsFees() bool { return !s.Now.Before(s.FeesUntil) }

// userRefundsUntil is the end of refunds by users; zero: there are none.
func (s *Sale) userRefundsUntil() (until time.Time) {
	if s.UserRefunds {
		until = s.RefundUntil
	}
	if !s.keepsFees() && s.FeesUntil.After(until) {
		until = s.FeesUntil
	}
	return until
}

// Decide answers a request, and changes the tickets that it claims. The tickets are those that the
// request names, or else all of the payment. They are locked.
func Decide(req Request, tickets []*ticket.Ticket, sale Sale) Claim {
	c := Claim{ID: req.ID, PaymentID: req.PaymentID, Cause: req.Cause, Status: Begun, BegunAt: sale.Now}
	if req.Cause == ByHand && !req.Whole { // a person has to say which tickets the money was for
		return c
	}
	if reason := refusal(&req, &sale); reason != "" && req.Cause != ByHand {
		return c.refused(reason)
	}
	if req.Cause != ByHand && len(tickets) == 0 && len(req.TicketIDs) == 0 && req.AwaitsTickets {
		return c.refused(ReasonTicketsPending)
	}
	var claimed []*ticket.Ticket
	for _, t := range tickets {
		if problem := problemOf(&req, t, &sale); problem != "" {
			c.Problems = append(c.Problems, Problem{TicketID: t.ID, Reason: problem})
			continue
		}
		claimed = append(claimed, t)
	}
	c.addMissing(&req, tickets)
	if req.Cause != ByHand && (len(claimed) == 0 || (len(req.TicketIDs) > 0 && len(c.Problems) > 0)) {
		return c.refused(ReasonNotRefundable)
	}
	for _, t := range claimed {
		amount := giveBack(&req, t, &sale)
		t.Claim(req.ID, amount)
		c.Items = append(c.Items, Item{TicketID: t.ID, Amount: amount})
	}
	return c
}

// giveBack returns what a refund of a ticket gives back: what is left of what its holder has paid,
// without what is kept.
func giveBack(req *Request, t *ticket.Ticket, sale *Sale) int64 {
	var kept int64
	byUser := req.Cause == User && sale.keepsFees()
	if byUser || req.KeepFees {
		kept = t.Fee
	}
	if byUser {
		kept += sale.CancellationFees.Kept(t.Paid-t.Fee, sale.Now)
	}
	return max(0, t.Paid-t.Given-kept)
}

// Offer is what a ticket's holder would get back now.
type Offer struct {
	// Until is the end of refunds by users; zero: there are none.
	Until  time.Time
	Amount int64
	// Reason is why the ticket cannot be given back; empty: it can.
	Reason string
}

// OfferTo decides about a ticket as Decide does about its holder's request for it.
func OfferTo(t *ticket.Ticket, sale Sale) Offer {
	req := Request{PaymentID: t.PaymentID, Cause: User, UserID: t.UserID, AskedAt: sale.Now}
	o := Offer{Amount: giveBack(&req, t, &sale), Until: sale.userRefundsUntil()}
	if o.Reason = refusal(&req, &sale); o.Reason == "" {
		o.Reason = problemOf(&req, t, &sale)
	}
	if t.PaymentID == uuid.Nil && (o.Reason == "" || t.Status == ticket.Valid) {
		o.Reason = ReasonNotPaid
	}
	return o
}

func (c *Claim) refused(reason string) Claim {
	c.Status, c.Reason = Refused, reason
	return *c
}

// refusal returns why a request is refused whatever its tickets are. An event that is cancelled
// gives everything back by itself.
func refusal(req *Request, sale *Sale) string {
	switch {
	case !sale.Now.Before(req.AskedAt.Add(AskedWithin)):
		return ReasonTooOld
	case !sale.State.TakesPlace():
		return ReasonEventCancelled
	default:
		return ""
	}
}

// problemOf returns why a request cannot have a ticket.
func problemOf(req *Request, t *ticket.Ticket, sale *Sale) string {
	switch {
	case t.PaymentID != req.PaymentID, req.Cause == User && t.UserID != req.UserID:
		return ProblemNotYours
	case t.Status != ticket.Valid:
		return string(t.Status)
	case req.Cause == User && !sale.takesUserRefunds() && !sale.UserRefunds:
		return ProblemNoRefunds
	case req.Cause == User && !sale.takesUserRefunds():
		return ProblemTooLate
	case req.Cause == ByHand && !sale.Now.Before(sale.ClosesAt): // doors may have it on their lists
		return ProblemTooLate
	default:
		return ""
	}
}

// addMissing adds the named tickets that do not exist.
func (c *Claim) addMissing(req *Request, tickets []*ticket.Ticket) {
	for _, id := range req.TicketIDs {
		if !slices.ContainsFunc(tickets, func(t *ticket.Ticket) bool { return t.ID == id }) {
			c.Problems = append(c.Problems, Problem{TicketID: id, Reason: ProblemNotYours})
		}
	}
}
