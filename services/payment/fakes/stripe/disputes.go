package stripe

import (
	"time"

	"urr.guru/services/payment/fakes"
)

// dispute is a dispute of a charge, as docs.stripe.com/api/disputes/object describes it: it
// contains the ids of the charge and its intent, but not their metadata.
type dispute struct {
	id, status string
	intent     *intent
	amount     int64
	created    time.Time
}

const (
	needsResponse = "needs_response"
	lost          = "lost"
	won           = "won"
)

func (d *dispute) object() map[string]any {
	return map[string]any{
		"id": d.id, "object": "dispute", "charge": d.intent.charge, "payment_intent": d.intent.id, "amount": d.amount, "currency": d.intent.currency,
		"created": d.created.Unix(), "status": d.status, "reason": "fraudulent", "metadata": map[string]string{},
	}
}

// listDisputes is docs.stripe.com/api/disputes/list.
func (s *Server) listDisputes(c call) fakes.Reply {
	objects := []map[string]any{}
	for _, d := range s.disputes {
		objects = s.addOf(objects, c, d.intent, d.object())
	}
	return c.list("/v1/disputes", objects)
}

// refusesRefunds reports whether an intent has an open or lost dispute, after which Stripe refuses
// refunds: docs.stripe.com/disputes/how-disputes-work.
func (s *Server) refusesRefunds(pi *intent) bool {
	for _, d := range s.disputes {
		if d.intent == pi && (d.status == needsResponse || d.status == lost) {
			return true
		}
	}
	return false
}

// Dispute opens a dispute of an order's whole charge, or closes it with the status closed: won or
// lost. The charge stays marked as disputed (docs.stripe.com/api/charges/object).
func (s *Server) Dispute(order, closed string) error {
	return s.dispute(order, closed, 0)
}

// DisputePart opens a dispute of a part of an order's charge.
func (s *Server) DisputePart(order string, amount int64) error { return s.dispute(order, "", amount) }

func (s *Server) dispute(order, closed string, amount int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessionOf(order)
	if x == nil || x.intent == nil || x.intent.received == 0 {
		return errUnknown
	}
	if closed == "" {
		if amount == 0 {
			amount = x.intent.received
		}
		d := &dispute{id: newID("dp_"), status: needsResponse, intent: x.intent, amount: amount, created: s.opts.Now()}
		s.disputes, x.intent.disputed = append(s.disputes, d), true
		s.event("charge.dispute.created", d.object())
		return nil
	}
	for _, d := range s.disputes {
		if d.intent == x.intent && d.status == needsResponse {
			d.status = closed
			s.event("charge.dispute.closed", d.object())
			return nil
		}
	}
	return errUnknown
}
