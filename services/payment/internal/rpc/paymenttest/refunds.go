package paymenttest

import (
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Ticket is a ticket that was bought with a payment.
type Ticket struct {
	ID string
	// Paid is the price including Fee, Given the part of Paid that is refunded or claimed for it.
	Paid, Fee, Given int64
	Status           string // VALID, USED, VOIDED, REFUNDING or REFUNDED
}

// claim is the stored answer to the first BeginRefund of a refund; ABORTED after AbortRefund.
type claim struct {
	paymentID string
	byHand    bool
	answer    *ticketv1.RefundClaim
}

// maxAge is the age from which a request for a refund is refused.
const maxAge = 7 * 24 * time.Hour

// Issue adds VALID tickets that were bought with a payment.
func (t *Tickets) Issue(paymentID string, tickets ...Ticket) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range tickets {
		tickets[i].Status = "VALID"
	}
	t.tickets[paymentID] = append(t.tickets[paymentID], tickets...)
}

// Use makes the ticket with index i of a payment USED, as a check-in does.
func (t *Tickets) Use(paymentID string, i int) { t.become(paymentID, i, "USED") }

// Void makes the ticket with index i of a payment VOIDED, as an operator does.
func (t *Tickets) Void(paymentID string, i int) { t.become(paymentID, i, "VOIDED") }

func (t *Tickets) become(paymentID string, i int, status string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[paymentID][i].Status = status
}

// Of returns the tickets of a payment.
func (t *Tickets) Of(paymentID string) []Ticket {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Clone(t.tickets[paymentID])
}

// Claim returns the status of a refund's claim; empty: there is none.
func (t *Tickets) Claim(refundID string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.claims[refundID].answer.GetStatus()
}

// Walk claims every valid ticket of a payment, as for the refund of a cancelled event, and returns
// the items of the claim.
func (t *Tickets) Walk(paymentID, claimID string) []*ticketv1.RefundClaimItem {
	t.mu.Lock()
	defer t.mu.Unlock()
	answer := t.claimTickets(paymentID, t.valid(paymentID), true)
	t.claims[claimID] = claim{paymentID: paymentID, answer: answer}
	return answer.GetItems()
}

func (t *Tickets) BeginRefund(_ context.Context, in *ticketv1.BeginRefundRequest) (*ticketv1.RefundClaim, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("BeginRefund"); err != nil {
		return nil, err
	}
	c, known := t.claims[in.GetRefundId()]
	if !known {
		c = claim{paymentID: in.GetPaymentId(), byHand: in.GetCause() == "BY_HAND", answer: t.decide(in)}
		t.claims[in.GetRefundId()] = c
	}
	return c.answer, t.failure("BeginRefundAnswer")
}

// decide answers the first BeginRefund of a refund. The caller holds the lock.
func (t *Tickets) decide(in *ticketv1.BeginRefundRequest) *ticketv1.RefundClaim {
	refused := &ticketv1.RefundClaim{Status: "REFUSED", Reason: "NOT_REFUNDABLE"}
	wanted := in.GetTicketIds()
	switch {
	case t.now().Sub(in.GetAskedAt().AsTime()) > maxAge:
		return refused
	case t.memberships[in.GetPaymentId()] != nil:
		return t.decideMembership(in)
	case in.GetCause() == "BY_HAND" && len(wanted) > 0:
		return t.assignByHand(in)
	case in.GetCause() == "BY_HAND" && !in.GetWhole():
		return &ticketv1.RefundClaim{Status: "BEGUN"}
	case len(wanted) == 0:
		wanted = t.valid(in.GetPaymentId())
	}
	for _, id := range wanted {
		i := slices.IndexFunc(t.tickets[in.GetPaymentId()], func(x Ticket) bool { return x.ID == id })
		if i < 0 {
			refused.Problems = append(refused.Problems, &ticketv1.ExcludedTicket{TicketId: id, Reason: "NOT_YOURS"})
		} else if x := t.tickets[in.GetPaymentId()][i]; x.Status != "VALID" && !(x.voided() && in.GetCause() == "OPERATOR" && x.Given < x.Paid) {
			refused.Problems = append(refused.Problems, &ticketv1.ExcludedTicket{TicketId: id, Reason: x.Status})
		}
	}
	if len(wanted) == 0 && len(t.tickets[in.GetPaymentId()]) == 0 {
		refused.Reason = "TICKETS_PENDING"
	}
	if refused.Problems != nil || len(wanted) == 0 && in.GetCause() != "BY_HAND" {
		return refused
	}
	fees := in.GetCause() != "USER" && (in.Fees == nil || in.GetFees())
	if t.onlyWhole > 0 && t.refundable(in.GetPaymentId(), wanted, fees) != t.onlyWhole {
		return &ticketv1.RefundClaim{Status: "REFUSED", Reason: "ONLY_WHOLE_ORDER"}
	}
	if present := t.refundable(in.GetPaymentId(), wanted, fees); present < in.GetShownAmount() {
		return &ticketv1.RefundClaim{Status: "REFUSED", Reason: "AMOUNT_CHANGED", PresentAmount: present}
	}
	return t.claimTickets(in.GetPaymentId(), wanted, fees)
}

// OnlyWhole makes payments of this amount ones that can only be given back as a whole.
func (t *Tickets) OnlyWhole(amount int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.onlyWhole = amount
}

// RaiseFee raises the fee of the ticket with index i of a payment, as if the organiser kept more.
func (t *Tickets) RaiseFee(paymentID string, i int, fee int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[paymentID][i].Fee = fee
}

// refundable returns what a refund of tickets would give back. The caller holds the lock.
func (t *Tickets) refundable(paymentID string, ids []string, fees bool) (sum int64) {
	for _, x := range t.tickets[paymentID] {
		if slices.Contains(ids, x.ID) {
			sum += x.refundable(fees)
		}
	}
	return sum
}

func (x *Ticket) refundable(fees bool) int64 {
	if fees {
		return x.Paid - x.Given
	}
	return x.Paid - x.Given - x.Fee
}

// assignByHand claims tickets for money that was given back by hand. The caller holds the lock.
func (t *Tickets) assignByHand(in *ticketv1.BeginRefundRequest) *ticketv1.RefundClaim {
	c := &ticketv1.RefundClaim{Status: "BEGUN"}
	refused := &ticketv1.RefundClaim{Status: "REFUSED", Reason: "NOT_REFUNDABLE"}
	left := in.GetHandLimit()
	var claimed []*Ticket
	for _, id := range in.GetTicketIds() {
		i := slices.IndexFunc(t.tickets[in.GetPaymentId()], func(x Ticket) bool { return x.ID == id })
		reason := "NOT_YOURS"
		if i >= 0 {
			x := &t.tickets[in.GetPaymentId()][i]
			amount := min(x.Paid-x.Given, left)
			if reason = "NOT_COVERED"; amount > 0 && (x.admits() || x.voided() || x.Status == "REFUNDED") {
				left -= amount
				claimed = append(claimed, x)
				c.Items = append(c.Items, &ticketv1.RefundClaimItem{TicketId: id, Amount: amount})
				continue
			}
			if !x.admits() && (x.Status == "REFUNDING" || x.Given == x.Paid) {
				reason = x.Status
			}
		}
		refused.Problems = append(refused.Problems, &ticketv1.ExcludedTicket{TicketId: id, Reason: reason})
	}
	if len(refused.GetProblems()) > 0 {
		return refused
	}
	for i, x := range claimed {
		x.Given += c.GetItems()[i].GetAmount()
		if x.admits() {
			x.Status = "REFUNDING"
		}
	}
	return c
}

func (x *Ticket) voided() bool { return x.Status == "VOIDED" }

func (x *Ticket) admits() bool { return x.Status == "VALID" || x.Status == "USED" }

// valid returns the ids of a payment's valid tickets. The caller holds the lock.
func (t *Tickets) valid(paymentID string) (ids []string) {
	for _, x := range t.tickets[paymentID] {
		if x.Status == "VALID" {
			ids = append(ids, x.ID)
		}
	}
	return ids
}

// claimTickets makes tickets REFUNDING and adds their refunds to Given. With fees, the fees are
// refunded too. The caller holds the lock.
func (t *Tickets) claimTickets(paymentID string, ids []string, fees bool) *ticketv1.RefundClaim {
	c := &ticketv1.RefundClaim{Status: "BEGUN"}
	for i := range t.tickets[paymentID] {
		x := &t.tickets[paymentID][i]
		if !slices.Contains(ids, x.ID) {
			continue
		}
		amount := x.refundable(fees)
		x.Given += amount
		if !x.voided() {
			x.Status = "REFUNDING"
		}
		c.Items = append(c.Items, &ticketv1.RefundClaimItem{TicketId: x.ID, Amount: amount})
	}
	return c
}

func (t *Tickets) AbortRefund(_ context.Context, in *ticketv1.AbortRefundRequest) (*emptypb.Empty, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("AbortRefund"); err != nil {
		return nil, err
	}
	c, known := t.claims[in.GetRefundId()]
	switch {
	case !known:
		t.claims[in.GetRefundId()] = claim{answer: &ticketv1.RefundClaim{Status: "ABORTED"}}
	case c.answer.GetStatus() == "BEGUN":
		for _, item := range c.answer.GetItems() {
			x := t.find(c.paymentID, item.GetTicketId())
			x.Given -= item.GetAmount()
			if !x.voided() {
				x.Status = "VALID"
			}
		}
		t.abortMembership(c)
		c.answer.Status = "ABORTED"
	}
	return &emptypb.Empty{}, nil
}

// find returns a ticket of a payment. The caller holds the lock.
func (t *Tickets) find(paymentID, ticketID string) *Ticket {
	i := slices.IndexFunc(t.tickets[paymentID], func(x Ticket) bool { return x.ID == ticketID })
	return &t.tickets[paymentID][i]
}

// Apply makes the tickets in an event PAYMENT_REFUNDED REFUNDED, as the ticket service does. It
// returns what is wrong with the event; empty: nothing.
func (t *Tickets) Apply(e *eventsv1.PaymentEvent) (problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, known := t.claims[e.GetRefundId()]
	if !known || c.answer.GetStatus() == "DONE" || e.GetType() != "PAYMENT_REFUNDED" {
		return ""
	}
	if len(e.GetItems()) != len(c.answer.GetItems()) {
		return "the event has other items than the claim of " + e.GetRefundId()
	}
	for _, item := range e.GetItems() {
		x := t.find(c.paymentID, item.GetTicketId())
		if x.voided() || x.Status == "REFUNDED" && c.byHand { // only Given rises
			continue
		}
		if x.Status != "REFUNDING" {
			return "ticket " + x.ID + " is " + x.Status + " and was refunded"
		}
		x.Status = "REFUNDED"
	}
	c.answer.Status = "DONE"
	return ""
}
