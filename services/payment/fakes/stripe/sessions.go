package stripe

import (
	"net/http"
	"strings"
	"time"

	"urr.guru/services/payment/fakes"
)

// session is a Checkout session, as docs.stripe.com/api/checkout/sessions/object describes it. It
// has no intent until the buyer tries to pay.
type session struct {
	id, order, status, currency string
	successURL, cancelURL       string
	amount                      int64
	expiresAt                   time.Time
	manual                      bool
	metadata, intentMetadata    map[string]string
	intent                      *intent
}

const (
	open     = "open"
	complete = "complete"
	expired  = "expired"
)

// The limits of expires_at after the creation: docs.stripe.com/api/checkout/sessions/create.
const (
	minLife = 30 * time.Minute
	maxLife = 24 * time.Hour
)

func (s *Server) createSession(c call) fakes.Reply {
	const item = "line_items[0]"
	x := &session{
		id: newID("cs_test_"), status: open, order: c.form.Get("client_reference_id"), currency: c.form.Get(item + "[price_data][currency]"),
		successURL: c.form.Get("success_url"), cancelURL: c.form.Get("cancel_url"),
		amount: c.number(item+"[quantity]") * c.number(item+"[price_data][unit_amount]"), expiresAt: time.Unix(c.number("expires_at"), 0),
		manual: c.form.Get("payment_intent_data[capture_method]") == "manual", metadata: c.metadata("metadata"),
		intentMetadata: c.metadata("payment_intent_data[metadata]"),
	}
	life := x.expiresAt.Sub(s.opts.Now())
	if c.form.Get("mode") != "payment" || x.amount <= 0 || len(x.currency) != 3 || x.successURL == "" || life < minLife || life > maxLife ||
		c.form.Get(item+"[price_data][product_data][name]") == "" {
		return forget(refuse(http.StatusBadRequest, invalidRequest, "parameter_invalid_empty", "mode, success_url, expires_at or line_items"))
	}
	s.sessions[x.id] = x
	return s.showSession(x, c.expand)
}

// find returns a session. It first expires the session if its time is over.
func (s *Server) find(id string) *session {
	x := s.sessions[id]
	switch {
	case x == nil:
	case x.status == open && !s.opts.Now().Before(x.expiresAt):
		s.expire(x)
	case x.intent != nil:
		s.findIntent(x.intent.id)
	}
	return x
}

func (s *Server) getSession(c call) fakes.Reply {
	x := s.find(c.id)
	if x == nil {
		return missing(c.id)
	}
	return s.showSession(x, c.expand)
}

// expireSession is docs.stripe.com/api/checkout/sessions/expire: only open sessions can expire.
func (s *Server) expireSession(c call) fakes.Reply {
	x := s.find(c.id)
	switch {
	case x == nil:
		return missing(c.id)
	case x.status != open:
		return refuse(http.StatusBadRequest, invalidRequest, "", "Only Checkout Sessions with a status of open can be expired")
	}
	s.expire(x)
	return s.showSession(x, c.expand)
}

func (s *Server) expire(x *session) {
	x.status = expired
	if x.intent != nil {
		x.intent.status = canceled
	}
	s.event("checkout.session.expired", s.sessionObject(x, ""))
}

func (s *Server) showSession(x *session, expand string) fakes.Reply {
	return fakes.JSON(http.StatusOK, s.sessionObject(x, expand))
}

func (s *Server) sessionObject(x *session, expand string) map[string]any {
	object := map[string]any{
		"id": x.id, "object": "checkout.session", "mode": "payment", "status": x.status, "payment_status": "unpaid", "client_reference_id": x.order,
		"metadata": x.metadata, "amount_total": x.amount, "currency": x.currency, "expires_at": x.expiresAt.Unix(), "url": nil, "payment_intent": nil,
	}
	if x.status == open { // docs.stripe.com/api/checkout/sessions/object: the address ends with the session
		object["url"] = s.opts.PublicURL + "/c/pay/" + x.id
	}
	if x.intent != nil {
		object["payment_intent"] = x.intent.id
		if inner, ok := strings.CutPrefix(expand, "payment_intent"); ok {
			object["payment_intent"] = s.intentObject(x.intent, strings.TrimPrefix(inner, "."))
		}
	}
	return object
}

// authorize is a buyer's payment on the page: the intent can then be captured, and the session is
// complete (docs.stripe.com/payments/place-a-hold-on-a-payment-method).
func (s *Server) authorize(x *session) {
	if x.intent == nil {
		s.addIntent(x)
	}
	x.status, x.intent.status, x.intent.authorizedAt = complete, requiresCapture, s.opts.Now()
	if !x.manual {
		s.capture(x.intent, x.amount)
	}
	s.event("payment_intent.amount_capturable_updated", s.intentObject(x.intent, ""))
	s.event("checkout.session.completed", s.sessionObject(x, ""))
}

// decline handles a declined card: the session stays open, and the buyer may try another card
// (docs.stripe.com/payments/paymentintents/lifecycle).
func (s *Server) decline(x *session) {
	if x.intent == nil {
		s.addIntent(x)
	}
	s.event("payment_intent.payment_failed", s.intentObject(x.intent, ""))
}
