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

// evidenceLife is how long after its creation evidence about a dispute is taken, which depends on the
// card's network: docs.stripe.com/disputes/responding.
const evidenceLife = 9 * 24 * time.Hour

const (
	needsResponse = "needs_response"
	underReview   = "under_review"
	lost          = "lost"
	won           = "won"
)

func (d *dispute) object() map[string]any {
	submissions := 0
	if d.status == underReview {
		submissions = 1
	}
	return map[string]any{
		"id": d.id, "object": "dispute", "charge": d.intent.charge, "payment_intent": d.intent.id, "amount": d.amount, "currency": d.intent.currency,
		"created": d.created.Unix(), "status": d.status, "reason": "fraudulent", "metadata": map[string]string{},
		"evidence_details": map[string]any{
			"due_by": d.created.Add(evidenceLife).Unix(), "has_evidence": submissions > 0, "past_due": false, "submission_count": submissions,
		},
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
		if d.intent == pi && (d.status == needsResponse || d.status == underReview || d.status == lost) {
			return true
		}
	}
	return false
}

// Dispute opens a dispute of an order's whole charge, or moves it to the status closed: under_review
// (the shop has sent evidence), won or lost. The charge stays marked as disputed
// (docs.stripe.com/api/charges/object). A lost dispute that the payer withdraws may still be won
// (support.stripe.com/questions/lost-dispute-faq).
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
		s.recordMovement("adjustment", -amount, d.object)
		s.event("charge.dispute.created", d.object())
		return nil
	}
	for _, d := range s.disputes {
		if d.intent != x.intent {
			continue
		}
		switch open := d.status == needsResponse || d.status == underReview; {
		case open && closed == underReview:
			d.status = closed
			s.event("charge.dispute.updated", d.object())
			return nil
		case open || d.status == lost && closed == won:
			s.closeDispute(d, closed)
			return nil
		}
	}
	return errUnknown
}

// closeDispute closes a dispute. One that was won gives the money back
// (docs.stripe.com/reports/balance-transaction-types: adjustment).
func (s *Server) closeDispute(d *dispute, status string) {
	kind := "charge.dispute.closed"
	if d.status == lost {
		kind = "charge.dispute.funds_reinstated"
	}
	d.status = status
	if status == won {
		s.recordMovement("adjustment", d.amount, d.object)
	}
	s.event(kind, d.object())
}

// warning is an early fraud warning: docs.stripe.com/api/radar/early_fraud_warnings/object.
type warning struct {
	id, kind string
	intent   *intent
	created  time.Time
}

func (s *Server) warningObject(w warning) map[string]any {
	return map[string]any{
		"id": w.id, "object": "radar.early_fraud_warning", "charge": w.intent.charge, "payment_intent": w.intent.id, "fraud_type": w.kind,
		"created": w.created.Unix(), "livemode": false, "actionable": !w.intent.disputed && s.refunded(w.intent) < w.intent.received,
	}
}

// listWarnings is docs.stripe.com/api/radar/early_fraud_warnings/list.
func (s *Server) listWarnings(c call) fakes.Reply {
	objects := []map[string]any{}
	for _, w := range s.warnings {
		objects = s.addOf(objects, c, w.intent, s.warningObject(w))
	}
	return c.list("/v1/radar/early_fraud_warnings", objects)
}

// WarnOfFraud makes a warning about an order's charge, as its card's issuer sends it.
func (s *Server) WarnOfFraud(order, kind string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pi := range s.intents {
		if pi.metadata["urr_order"] != order || pi.received == 0 {
			continue
		}
		w := warning{id: newID("issfr_"), kind: kind, intent: pi, created: s.opts.Now()}
		s.warnings = append(s.warnings, w)
		s.event("radar.early_fraud_warning.created", s.warningObject(w))
		return nil
	}
	return errUnknown
}
