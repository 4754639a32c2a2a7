package stripe

import (
	"cmp"
	"errors"
	"net/http"
	"slices"
	"time"

	"urr.guru/services/payment/fakes"
)

// refund is a refund as in docs.stripe.com/api/refunds/object.
type refund struct {
	id, status string
	// waits is why it is pending (docs.stripe.com/api/refunds/object#refund_object-pending_reason).
	waits    string
	intent   *intent
	amount   int64
	metadata map[string]string
	at       time.Time
}

const (
	pending = "pending"
	failed  = "failed"
)

// Refund is the state of a refund at the fake, for tests.
type Refund struct {
	ID       string            `json:"id"`
	Status   string            `json:"status"`
	Amount   int64             `json:"amount"`
	Metadata map[string]string `json:"metadata"`
}

// createRefund is docs.stripe.com/api/refunds/create: parts of a charge until nothing is left.
func (s *Server) createRefund(c call) fakes.Reply {
	pi := s.findIntent(c.form.Get("payment_intent"))
	if pi == nil {
		return missing(c.form.Get("payment_intent"))
	}
	amount, left := c.number("amount"), pi.received-s.refunded(pi)
	switch {
	case pi.status != succeeded:
		return s.wrongState(pi)
	case s.refusesRefunds(pi): // docs.stripe.com/error-codes: charge_disputed
		return refuse(http.StatusBadRequest, invalidRequest, "charge_disputed", "The charge is disputed")
	case left == 0: // docs.stripe.com/error-codes: charge_already_refunded
		return refuse(http.StatusBadRequest, invalidRequest, "charge_already_refunded", "The charge has already been refunded")
	case amount > left:
		return refuseWith(http.StatusBadRequest, map[string]any{
			"type": invalidRequest, "param": "amount", "message": "Refund amount is greater than unrefunded amount on charge",
		})
	case wrongDigits(amount, pi.currency):
		return refuse(http.StatusBadRequest, invalidRequest, "parameter_invalid_integer", "Invalid amount")
	case amount == 0:
		amount = left
	}
	return fakes.JSON(http.StatusOK, s.addRefund(pi, amount, c.metadata("metadata")).object())
}

func (s *Server) addRefund(pi *intent, amount int64, metadata map[string]string) *refund {
	r := &refund{id: newID("re_"), status: succeeded, intent: pi, amount: amount, metadata: metadata, at: s.opts.Now()}
	s.refunds = append(s.refunds, r)
	if s.rules.PendingRefunds {
		r.status, r.waits = pending, cmp.Or(s.rules.PendingReason, "processing")
	} else {
		s.moveRefund("refund", r, -amount)
	}
	s.event("refund.created", r.object())
	s.event("charge.refunded", s.chargeObject(pi))
	return r
}

// moveRefund records the change of the balance by a refund. A pending refund does not change it:
// docs.stripe.com/api/refunds/object.
func (s *Server) moveRefund(kind string, r *refund, amount int64) {
	s.recordMovement(kind, amount, func() map[string]any { return r.object() })
}

func (r *refund) object() map[string]any {
	object := map[string]any{
		"id": r.id, "object": "refund", "created": r.at.Unix(), "status": r.status, "amount": r.amount, "currency": r.intent.currency, "payment_intent": r.intent.id,
		"charge": r.intent.charge, "metadata": r.metadata,
	}
	if r.status == pending {
		object["pending_reason"] = r.waits
	}
	if r.status == failed { // docs.stripe.com/refunds#failed-refunds
		object["failure_reason"] = "expired_or_canceled_card"
	}
	return object
}

// listRefunds is docs.stripe.com/api/refunds/list: the refunds of an intent, or of a period.
func (s *Server) listRefunds(c call) fakes.Reply {
	objects := []map[string]any{}
	for _, r := range s.refunds {
		objects = s.addOf(objects, c, r.intent, r.object())
	}
	return c.list("/v1/refunds", objects)
}

// addOf adds an object that belongs to the intent pi to a list, unless the call asks for another
// intent's. If the call asks for it, the object includes the whole intent.
func (s *Server) addOf(list []map[string]any, c call, pi *intent, object map[string]any) []map[string]any {
	if wanted := c.form.Get("payment_intent"); wanted != "" && wanted != pi.id {
		return list
	}
	if c.expand == "data.payment_intent" {
		object["payment_intent"] = s.intentObject(pi, "")
	}
	return append(list, object)
}

var errUnknown = errors.New("no such order or refund")

// DelayRefund changes why a refund is pending, without a webhook.
func (s *Server) DelayRefund(id, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.refunds {
		if r.id == id {
			r.waits = reason
		}
	}
}

// SettleRefund makes a refund succeeded or failed, as a bank does days later. A succeeded one may
// fail (docs.stripe.com/refunds#failed-refunds): the shop then has the money again.
func (s *Server) SettleRefund(id, status string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.refunds, func(r *refund) bool { return r.id == id })
	if i < 0 || status != succeeded && status != failed {
		return errUnknown
	}
	r := s.refunds[i]
	switch {
	case status == succeeded && r.status == pending:
		s.moveRefund("refund", r, -r.amount)
	case status == failed && r.status == succeeded: // docs.stripe.com/reports/balance-transaction-types
		s.moveRefund("refund_failure", r, r.amount)
	}
	r.status = status
	s.event("refund.updated", r.object())
	if status == failed {
		s.event("refund.failed", r.object())
	}
	return nil
}

// RefundByHand refunds a part of an order as a person does on Stripe's dashboard, without metadata.
func (s *Server) RefundByHand(order string, amount int64) error {
	return s.RefundWith(order, amount, map[string]string{})
}

// RefundWith refunds a part of an order as a program with the account's key could.
func (s *Server) RefundWith(order string, amount int64, metadata map[string]string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.sessionOf(order)
	if x == nil || x.intent == nil || amount <= 0 || amount > x.intent.received-s.refunded(x.intent) {
		return errUnknown
	}
	s.addRefund(x.intent, amount, metadata)
	return nil
}
