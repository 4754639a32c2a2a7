package paymenttest

import (
	"context"
	"maps"
	"slices"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Reject records that a payment was rejected.
func (t *Tickets) Reject(paymentID string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.rejected[paymentID] = true
}

// Promise raises what is given back for the ticket with index i of a payment, as its sale to another
// user does.
func (t *Tickets) Promise(paymentID string, i int, amount int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tickets[paymentID][i].Given += amount
}

func (t *Tickets) FindSettled(_ context.Context, in *ticketv1.FindSettledRequest) (*ticketv1.FindSettledResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("Settled"); err != nil {
		return nil, err
	}
	out := &ticketv1.FindSettledResponse{}
	for _, id := range in.GetPaymentIds() {
		if p := t.settled(id); p != nil {
			out.Payments = append(out.Payments, p)
		}
	}
	return out, nil
}

// ListSettled returns all that was paid, in pages of two, whenever that was.
func (t *Tickets) ListSettled(_ context.Context, in *ticketv1.ListSettledRequest) (*ticketv1.ListSettledResponse, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err := t.failure("ListSettled"); err != nil {
		return nil, err
	}
	ids := slices.AppendSeq(slices.Collect(maps.Keys(t.tickets)), maps.Keys(t.memberships))
	slices.Sort(ids)
	out := &ticketv1.ListSettledResponse{}
	for _, id := range ids {
		if id <= in.GetCursor() {
			continue
		}
		if len(out.Payments) == 2 {
			out.NextCursor = out.Payments[1].PaymentId
			break
		}
		out.Payments = append(out.Payments, t.settled(id))
	}
	return out, nil
}

// settled returns what became of a payment; nil: nothing. The caller holds the lock.
func (t *Tickets) settled(id string) *ticketv1.SettledPayment {
	p := &ticketv1.SettledPayment{PaymentId: id, UserId: "ann", Currency: "KRW"}
	for _, x := range t.tickets[id] {
		p.Paid, p.Kept = p.Paid+x.Paid, p.Kept+x.Paid-x.Given
	}
	if m := t.memberships[id]; m != nil {
		p.Paid, p.Kept = m.Paid, m.Paid-m.Given
	}
	switch {
	case t.rejected[id]:
		return &ticketv1.SettledPayment{PaymentId: id, RejectedReason: "HOLD_EXPIRED"}
	case t.tickets[id] == nil && t.memberships[id] == nil:
		return nil
	default:
		return p
	}
}
