package stripe

import (
	"net/http"
	"net/mail"
	"strings"
	"time"
	"unicode"

	"urr.guru/services/payment/fakes"
)

// session is a Checkout session, as docs.stripe.com/api/checkout/sessions/object describes it. It
// has no intent until the buyer tries to pay.
type session struct {
	id, order, status, currency string
	name, description, suffix   string // of the product, and of the intent and its statement
	successURL, cancelURL       string
	email, receiptEmail         string
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

// smallest has the least amounts of some currencies (docs.stripe.com/currencies#minimum-and-maximum-charge-amounts).
var smallest = map[string]int64{"usd": 50, "eur": 50, "gbp": 30, "jpy": 50, "krw": 50} //nolint:gochecknoglobals // a constant

// wrongDigits reports whether an amount has digits that its currency does not have: the last one of
// three must be 0, and of ISK and UGX the last two (docs.stripe.com/currencies#special-cases).
func wrongDigits(amount int64, currency string) bool {
	switch currency {
	case "bhd", "jod", "kwd", "omr", "tnd":
		return amount%10 != 0
	case "isk", "ugx":
		return amount%100 != 0
	default:
		return false
	}
}

// acceptsSuffix reports whether a statement accepts the suffix beside the account's prefix, FAKE
// (docs.stripe.com/get-started/account/statement-descriptors).
func acceptsSuffix(suffix string) bool {
	foreign := func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`<>\'"*`, r) }
	return len("FAKE* "+suffix) <= 22 && !strings.ContainsFunc(suffix, foreign) && strings.ContainsFunc(suffix, unicode.IsLetter)
}

func (s *Server) createSession(c call) fakes.Reply {
	const item = "line_items[0]"
	x := &session{
		id: newID("cs_test_"), status: open, order: c.form.Get("client_reference_id"), currency: c.form.Get(item + "[price_data][currency]"),
		name: c.form.Get(item + "[price_data][product_data][name]"), description: c.form.Get("payment_intent_data[description]"),
		suffix: c.form.Get("payment_intent_data[statement_descriptor_suffix]"),
		email:  c.form.Get("customer_email"), receiptEmail: c.form.Get("payment_intent_data[receipt_email]"),
		successURL: c.form.Get("success_url"), cancelURL: c.form.Get("cancel_url"),
		amount: c.number(item+"[quantity]") * c.number(item+"[price_data][unit_amount]"), expiresAt: time.Unix(c.number("expires_at"), 0),
		manual: c.form.Get("payment_intent_data[capture_method]") == "manual", metadata: c.metadata("metadata"),
		intentMetadata: c.metadata("payment_intent_data[metadata]"),
	}
	life := x.expiresAt.Sub(s.opts.Now())
	if c.form.Get("mode") != "payment" || x.amount <= 0 || len(x.currency) != 3 || x.successURL == "" || life < minLife || life > maxLife ||
		x.name == "" {
		return forget(refuse(http.StatusBadRequest, invalidRequest, "parameter_invalid_empty", "mode, success_url, expires_at or line_items"))
	}
	if s.rules.NotActivated { // docs.stripe.com/error-codes#testmode-charges-only
		return forget(refuse(http.StatusBadRequest, invalidRequest, "testmode_charges_only", "Your account can only make test charges."))
	}
	if x.amount < smallest[x.currency] {
		return forget(refuse(http.StatusBadRequest, invalidRequest, "amount_too_small", "The Checkout Session's total amount must convert to at least 50 cents."))
	}
	if wrongDigits(x.amount, x.currency) {
		return forget(refuse(http.StatusBadRequest, invalidRequest, "parameter_invalid_integer", "Invalid amount"))
	}
	if x.suffix != "" && !acceptsSuffix(x.suffix) {
		return forget(refuse(http.StatusBadRequest, invalidRequest, "parameter_invalid_empty", "statement_descriptor_suffix"))
	}
	for param, address := range map[string]string{"customer_email": x.email, "payment_intent_data[receipt_email]": x.receiptEmail} {
		if _, err := mail.ParseAddress(address); address != "" && err != nil { // docs.stripe.com/error-codes: email_invalid
			return forget(refuseWith(http.StatusBadRequest, map[string]any{
				"type": invalidRequest, "code": "email_invalid", "param": param, "message": "Invalid email address: " + address,
			}))
		}
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
	x.status, x.intent.status, x.intent.authorizedAt, x.intent.declined = complete, requiresCapture, s.opts.Now(), false
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
	x.intent.declined = true
	s.event("payment_intent.payment_failed", s.intentObject(x.intent, ""))
}
