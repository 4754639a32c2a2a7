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
//
// A user's request is judged by the time of asking, since it may wait for minutes while a fee rises.
// If the organiser has changed the terms since then, the better ones for the user count. Only the
// end of all refunds counts by the time of the decision, since doors get their lists then.
type Terms struct {
	event.AfterSaleTerms

	// Former are terms of refunds by users that were replaced after the time of asking.
	Former []event.AfterSaleTerms
	Now    time.Time
}

// at returns the time by which a user's request is judged.
func (s *Terms) at(req *Request) time.Time {
	if req.AskedAt.Before(s.Now) {
		return req.AskedAt
	}
	return s.Now
}

// forUser returns the terms by which the user of a ticket, who asks at this time, may give it back.
func (s *Terms) forUser(t *ticket.Ticket, at time.Time) (taking []*event.AfterSaleTerms) {
	if at.Before(userRefundsUntil(&s.AfterSaleTerms, t, at)) {
		taking = append(taking, &s.AfterSaleTerms)
	}
	for i := range s.Former {
		if former := &s.Former[i]; at.Before(userRefundsUntil(former, t, at)) {
			taking = append(taking, former)
		}
	}
	return taking
}

// keepsFees reports whether the user of a ticket gets no fees back: always, except for a time after
// a postponement, for tickets from before it. Who buys later knows the new date, and would else get
// a purchase that may be undone for nothing.
func keepsFees(c *event.AfterSaleTerms, t *ticket.Ticket, at time.Time) bool {
	return !at.Before(c.FeesUntil) || !t.ChosenAt.Before(c.PostponedAt)
}

// userRefundsUntil returns the time until which users may give a ticket back; zero: they may not.
// The event's settings decide, but for some time after a postponement buyers from before it may.
func userRefundsUntil(c *event.AfterSaleTerms, t *ticket.Ticket, at time.Time) (until time.Time) {
	if c.UserRefunds {
		until = c.RefundUntil
	}
	if !keepsFees(c, t, at) && c.FeesUntil.After(until) {
		until = c.FeesUntil
	}
	return until
}

// kept returns what the organiser keeps of a ticket that its user gives back.
func kept(c *event.AfterSaleTerms, t *ticket.Ticket, at time.Time) int64 {
	if !keepsFees(c, t, at) {
		return 0
	}
	return t.Fee + c.CancellationFees.Kept(t.Paid-t.Fee, at)
}

// Decide answers a request for a refund, and changes the tickets that it claims. tickets are those
// with the ids in the request, or all of the payment if it has no ids. Their rows must be locked.
func Decide(req Request, tickets []*ticket.Ticket, terms Terms) Claim {
	c := Claim{ID: req.ID, PaymentID: req.PaymentID, Cause: req.Cause, Status: Begun, BegunAt: terms.Now}
	if req.Cause == ByHand && len(req.TicketIDs) > 0 {
		return assignByHand(&req, tickets, &terms, c)
	}
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
			c.Excluded = append(c.Excluded, ExcludedTicket{TicketID: t.ID, Reason: problem})
			continue
		}
		claimed = append(claimed, t)
	}
	c.addMissing(&req, tickets)
	if req.Cause != ByHand && (len(claimed) == 0 || (len(req.TicketIDs) > 0 && len(c.Excluded) > 0)) {
		return c.Refuse(ReasonNotRefundable)
	}
	amounts, sum := make([]int64, len(claimed)), int64(0)
	for i, t := range claimed {
		amounts[i] = refundAmount(&req, t, &terms)
		sum += amounts[i]
	}
	if req.Cause != ByHand && slices.ContainsFunc(claimed, func(t *ticket.Ticket) bool { return t.OnlyWhole > 0 && t.OnlyWhole != sum }) {
		return c.Refuse(ReasonOnlyWhole)
	}
	if req.RefuseLess(&c, sum) {
		return c
	}
	for i, t := range claimed {
		t.Claim(req.ID, amounts[i])
		c.Items = append(c.Items, Item{TicketID: t.ID, Amount: amounts[i]})
	}
	return c
}

// assignByHand decides on tickets for which a person has given money back, as an operator says. Those
// that admit somebody end, at any time; of the others only GivenBack rises. The money is divided in
// the order of the tickets: if one got nothing, all are refused. If the event is cancelled, the money
// counts for the refund of all its tickets.
func assignByHand(req *Request, tickets []*ticket.Ticket, terms *Terms, c Claim) Claim {
	if reason := refusal(req, terms); reason != "" {
		return c.Refuse(reason)
	}
	for _, t := range tickets {
		switch {
		case t.PaymentID != req.PaymentID:
			c.Excluded = append(c.Excluded, ExcludedTicket{TicketID: t.ID, Reason: ExcludedNotYours})
		case t.Status == ticket.Refunding, t.Status == ticket.Transferring, !t.Admits() && t.Owed() == 0:
			c.Excluded = append(c.Excluded, ExcludedTicket{TicketID: t.ID, Reason: string(t.Status)})
		}
	}
	c.addMissing(req, tickets)
	if len(c.Excluded) > 0 {
		return c.Refuse(ReasonNotRefundable)
	}
	left := req.HandLimit
	for _, t := range tickets {
		amount := min(t.Owed(), left)
		left -= amount
		c.Items = append(c.Items, Item{TicketID: t.ID, Amount: amount})
		if amount == 0 {
			c.Excluded = append(c.Excluded, ExcludedTicket{TicketID: t.ID, Reason: ExcludedNotCovered})
		}
	}
	if len(c.Excluded) > 0 {
		c.Items = nil
		return c.Refuse(ReasonNotRefundable)
	}
	for i, t := range tickets {
		t.Claim(req.ID, c.Items[i].Amount)
	}
	return c
}

// refundAmount returns the amount that a refund of a ticket gives back: what its holder has paid,
// less what was given back before and what the organiser keeps.
func refundAmount(req *Request, t *ticket.Ticket, terms *Terms) int64 {
	var least int64
	if req.KeepFees {
		least = t.Fee
	}
	if req.Cause == User {
		at := terms.at(req)
		least = kept(&terms.AfterSaleTerms, t, at)
		for i, c := range terms.forUser(t, at) {
			if k := kept(c, t, at); i == 0 || k < least {
				least = k
			}
		}
	}
	return max(0, t.Paid-t.GivenBack-least)
}

// Offer says whether a ticket's holder could give the ticket back now, and for how much.
type Offer struct {
	// Until is the time until which users may give tickets back; zero: they may not.
	Until  time.Time
	Amount int64
	// FullUntil is the time until which Amount is all that was paid, since the event was postponed
	// after the ticket was chosen. From then until Until, less is given back. Zero: Amount is no such
	// amount.
	FullUntil time.Time
	// Reason is why the ticket cannot be given back; empty: it can.
	Reason string
}

// OfferTo returns what Decide would answer now if the ticket's holder asked for a refund of it.
func OfferTo(t *ticket.Ticket, terms Terms) Offer {
	req := Request{PaymentID: t.PaymentID, Cause: User, UserID: t.UserID, AskedAt: terms.Now}
	o := Offer{Amount: refundAmount(&req, t, &terms), Until: userRefundsUntil(&terms.AfterSaleTerms, t, terms.Now)}
	if o.Reason = refusal(&req, &terms); o.Reason == "" {
		o.Reason = problemOf(&req, t, &terms)
	}
	if t.PaymentID == uuid.Nil && (o.Reason == "" || t.Status == ticket.Valid) {
		o.Reason = ReasonNotPaid
	}
	if o.Reason == "" && t.OnlyWhole > 0 && t.OnlyWhole != o.Amount {
		o.Reason = ReasonOnlyWhole
	}
	if o.Reason == "" && !keepsFees(&terms.AfterSaleTerms, t, terms.Now) {
		o.FullUntil = terms.FeesUntil
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
	taken := len(terms.forUser(t, terms.at(req))) > 0
	closed := !terms.Now.Before(terms.ClosesAt) // the lists of doors may have the ticket
	switch {
	case t.PaymentID != req.PaymentID, req.Cause == User && t.UserID != req.UserID:
		return ExcludedNotYours
	case t.Status == ticket.Voided && req.Cause == Operator && refundAmount(req, t, terms) > 0: // the money is left
		return ""
	case t.Status != ticket.Valid:
		return string(t.Status)
	case req.Cause == User && !taken && !terms.UserRefunds:
		return ExcludedNoRefunds
	case req.Cause == User && (!taken || closed), req.Cause == ByHand && closed:
		return ExcludedTooLate
	default:
		return ""
	}
}

// addMissing adds a problem for each ticket id in the request that no ticket has.
func (c *Claim) addMissing(req *Request, tickets []*ticket.Ticket) {
	for _, id := range req.TicketIDs {
		if !slices.ContainsFunc(tickets, func(t *ticket.Ticket) bool { return t.ID == id }) {
			c.Excluded = append(c.Excluded, ExcludedTicket{TicketID: id, Reason: ExcludedNotYours})
		}
	}
}
