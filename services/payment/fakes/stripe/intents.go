package stripe

import (
	"maps"
	"net/http"
	"slices"
	"time"

	"urr.guru/services/payment/fakes"
)

// intent is a payment intent and its charge (docs.stripe.com/api/payment_intents/object).
type intent struct {
	id, charge, status, currency string
	amount, received             int64
	metadata                     map[string]string
	authorizedAt                 time.Time
	disputed                     bool
	declined                     bool // the latest attempt on the page
}

const (
	requiresPaymentMethod = "requires_payment_method"
	requiresCapture       = "requires_capture"
	succeeded             = "succeeded"
	canceled              = "canceled"
)

// authorizationLife for most cards: docs.stripe.com/payments/place-a-hold-on-a-payment-method.
const authorizationLife = 7 * 24 * time.Hour

func (s *Server) addIntent(x *session) {
	x.intent = &intent{
		id: newID("pi_"), charge: newID("ch_"), status: requiresPaymentMethod, currency: x.currency, amount: x.amount, metadata: x.intentMetadata,
	}
	s.intents[x.intent.id] = x.intent
}

// findIntent returns an intent. It first cancels the intent if its authorisation has expired.
func (s *Server) findIntent(id string) *intent {
	pi := s.intents[id]
	if pi != nil && pi.status == requiresCapture && s.opts.Now().Sub(pi.authorizedAt) >= authorizationLife {
		s.cancel(pi)
	}
	return pi
}

func (s *Server) getIntent(c call) fakes.Reply {
	pi := s.findIntent(c.id)
	if pi == nil {
		return missing(c.id)
	}
	return s.showIntent(pi, c.expand)
}

// captureIntent is docs.stripe.com/api/payment_intents/capture: only an intent that requires a
// capture can be captured, once. What is not captured of its amount is released.
func (s *Server) captureIntent(c call) fakes.Reply {
	pi := s.findIntent(c.id)
	amount := c.number("amount_to_capture")
	switch {
	case pi == nil:
		return missing(c.id)
	case pi.status != requiresCapture:
		return s.wrongState(pi)
	case amount > pi.amount:
		return refuse(http.StatusBadRequest, invalidRequest, "amount_too_large", "The amount is greater than what can be captured")
	case s.rules.Decline != "": // docs.stripe.com/api/errors: card errors
		return refuseWith(http.StatusPaymentRequired, map[string]any{
			"type": "card_error", "code": "card_declined", "decline_code": s.rules.Decline, "message": "Your card was declined.",
		})
	case amount == 0:
		amount = pi.amount
	}
	s.capture(pi, amount)
	return s.showIntent(pi, c.expand)
}

func (s *Server) capture(pi *intent, amount int64) {
	pi.status, pi.received = succeeded, amount
	s.recordMovement("charge", amount, func() map[string]any { return s.chargeObject(pi) })
	s.event("payment_intent.succeeded", s.intentObject(pi, ""))
}

// cancelIntent is docs.stripe.com/api/payment_intents/cancel: an intent from a page can be
// cancelled only while it requires a capture. Before that, its session must be expired instead.
func (s *Server) cancelIntent(c call) fakes.Reply {
	pi := s.findIntent(c.id)
	switch {
	case pi == nil:
		return missing(c.id)
	case pi.status != requiresCapture:
		return s.wrongState(pi)
	}
	s.cancel(pi)
	return s.showIntent(pi, c.expand)
}

func (s *Server) cancel(pi *intent) {
	pi.status = canceled
	s.event("payment_intent.canceled", s.intentObject(pi, ""))
}

func (s *Server) wrongState(pi *intent) fakes.Reply {
	return refuseWith(http.StatusBadRequest, map[string]any{
		"type": invalidRequest, "code": "payment_intent_unexpected_state", "message": "The intent has the status " + pi.status,
		"payment_intent": s.intentObject(pi, ""),
	})
}

func (s *Server) showIntent(pi *intent, expand string) fakes.Reply {
	return fakes.JSON(http.StatusOK, s.intentObject(pi, expand))
}

func (s *Server) intentObject(pi *intent, expand string) map[string]any {
	object := map[string]any{
		"id": pi.id, "object": "payment_intent", "status": pi.status, "amount": pi.amount, "amount_capturable": 0, "amount_received": pi.received,
		"currency": pi.currency, "metadata": pi.metadata, "capture_method": "manual", "latest_charge": nil,
	}
	if pi.status == requiresCapture {
		object["amount_capturable"] = pi.amount
	}
	if pi.declined { // docs.stripe.com/api/payment_intents/object#payment_intent_object-last_payment_error
		object["last_payment_error"] = map[string]any{"type": "card_error", "code": "card_declined", "decline_code": "generic_decline"}
	}
	if !pi.authorizedAt.IsZero() {
		object["latest_charge"] = pi.charge
		if expand == "latest_charge" {
			object["latest_charge"] = s.chargeObject(pi)
		}
	}
	return object
}

// chargeObject returns the charge, with its intent's metadata (docs.stripe.com/api/metadata).
func (s *Server) chargeObject(pi *intent) map[string]any {
	return map[string]any{
		"id": pi.charge, "object": "charge", "payment_intent": pi.id, "amount": pi.amount, "amount_captured": pi.received,
		"receipt_url": "https://pay.stripe.com/receipts/payment/" + pi.charge, "amount_refunded": s.refunded(pi), "captured": pi.received > 0, "currency": pi.currency, "disputed": pi.disputed, "metadata": maps.Clone(pi.metadata),
	}
}

// refunded returns the refunded amount of an intent, including pending refunds.
func (s *Server) refunded(pi *intent) (sum int64) {
	for _, r := range s.refunds {
		if r.intent == pi && r.status != failed && r.status != canceled {
			sum += r.amount
		}
	}
	return sum
}

// Order is the state of an order at the fake, for tests.
type Order struct {
	Session string `json:"session"`
	Intent  string `json:"intent,omitempty"`
	Order   string `json:"order"`
	// Name is what is paid for, on the page; Description is the intent's.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Suffix is that of the statement descriptor.
	Suffix string `json:"suffix"`
	// Email is where the receipt goes.
	Email string `json:"email"`
	// Status is the intent's status, or the session's if there is no intent.
	Status   string   `json:"status"`
	Amount   int64    `json:"amount"`
	Received int64    `json:"received"`
	Refunded int64    `json:"refunded"`
	Refunds  []Refund `json:"refunds"`
}

// Orders returns all orders that have a session.
func (s *Server) Orders() (list []Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.sessions)) {
		list = append(list, s.orderOf(s.find(id)))
	}
	return list
}

// Order returns the state of an order; the zero Order if it is unknown.
func (s *Server) Order(order string) Order {
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.sessionOf(order); x != nil {
		return s.orderOf(x)
	}
	return Order{}
}

// sessionOf returns the session of an order; nil: there is none.
func (s *Server) sessionOf(order string) *session {
	for id, x := range s.sessions {
		if x.order == order {
			return s.find(id)
		}
	}
	return nil
}

func (s *Server) orderOf(x *session) Order {
	o := Order{Session: x.id, Order: x.order, Name: x.name, Description: x.description, Suffix: x.suffix, Email: x.receiptEmail, Status: x.status, Amount: x.amount}
	if x.intent != nil {
		pi := x.intent
		o.Intent, o.Status, o.Received, o.Refunded = pi.id, pi.status, pi.received, s.refunded(pi)
		for _, r := range s.refunds {
			if r.intent == pi {
				o.Refunds = append(o.Refunds, Refund{ID: r.id, Status: r.status, Amount: r.amount, Metadata: r.metadata})
			}
		}
	}
	return o
}
