// Package stripe is a fake of Stripe for development and tests: sessions of Checkout with their
// page, payment intents with manual capture, refunds, disputes and webhooks. Comments cite the page
// of Stripe's reference for each behaviour. The fake keeps everything in memory.
package stripe

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"urr.guru/services/payment/fakes"
)

// The names of the calls, for Inject, Block and Count.
const (
	CreateSession  = "POST /v1/checkout/sessions"
	GetSession     = "GET /v1/checkout/sessions/{id}"
	ExpireSession  = "POST /v1/checkout/sessions/{id}/expire"
	GetIntent      = "GET /v1/payment_intents/{id}"
	CaptureIntent  = "POST /v1/payment_intents/{id}/capture"
	CancelIntent   = "POST /v1/payment_intents/{id}/cancel"
	CreateRefund   = "POST /v1/refunds"
	ListRefunds    = "GET /v1/refunds"
	ListBalance    = "GET /v1/balance_transactions"
	ListDisputes   = "GET /v1/disputes"
	ListWarnings   = "GET /v1/radar/early_fraud_warnings"
	apiVersion     = "2026-03-25.dahlia"
	keyLife        = 24 * time.Hour
	invalidRequest = "invalid_request_error"
)

// Options are the options of a Server.
type Options struct {
	Now func() time.Time
	// Key is the secret key that callers must send. WebhookSecret signs the webhooks.
	Key, WebhookSecret string
	// PublicURL is the server's address in browsers.
	PublicURL string
}

// Server is the fake. Calls makes its calls go wrong, Webhooks sends its webhooks.
type Server struct {
	Calls    *fakes.Calls
	Webhooks *fakes.Webhooks

	opts   Options
	mux    *http.ServeMux
	limits limits

	mu       sync.Mutex
	sessions map[string]*session
	intents  map[string]*intent
	refunds  []*refund // oldest first
	balance  []movement
	disputes []*dispute
	warnings []warning
	rules    Rules
}

// Rules are how banks decide about captures and refunds, and Stripe about sessions.
type Rules struct {
	// Decline is the decline code with which captures fail; empty: they succeed.
	Decline string `json:"decline"`
	// PendingRefunds makes new refunds pending until SettleRefund.
	PendingRefunds bool `json:"pendingRefunds"`
	// NotActivated makes the account one that cannot take payments yet.
	NotActivated bool `json:"notActivated"`
	// PendingReason is why: "processing" unless set.
	PendingReason string `json:"pendingReason"`
}

// docs.stripe.com/rate-limits: the code is rate_limit, or lock_timeout if the object is in use.
var tooMany = refuse(http.StatusTooManyRequests, invalidRequest, "rate_limit", "too many requests") //nolint:gochecknoglobals // a constant

// NewServer returns a Server without orders.
func NewServer(opts Options) *Server {
	s := &Server{opts: opts, mux: http.NewServeMux(), sessions: map[string]*session{}, intents: map[string]*intent{}}
	// docs.stripe.com/api/idempotent_requests: answers, even errors, are kept for 24 h at least, and
	// parameters are compared. Not kept: for invalid requests, and while another one runs.
	s.Calls = fakes.NewCalls(fakes.Options{
		Now: opts.Now, KeyLife: keyLife, Compares: true,
		Mismatch: refuse(http.StatusBadRequest, "idempotency_error", "", "the key was used with other parameters"),
		Running:  refuse(http.StatusConflict, invalidRequest, "idempotency_key_in_use", "a request with this key is in progress"),
		Internal: refuse(http.StatusInternalServerError, "api_error", "", "an internal error"),
		TooMany:  tooMany,
	})
	s.Webhooks = fakes.NewWebhooks(s.Calls, s.sign)
	for pattern, act := range map[string]func(call) fakes.Reply{
		CreateSession: s.createSession, GetSession: s.getSession, ExpireSession: s.expireSession,
		GetIntent: s.getIntent, CaptureIntent: s.captureIntent, CancelIntent: s.cancelIntent,
		CreateRefund: s.createRefund, ListRefunds: s.listRefunds, ListBalance: s.listBalance, ListDisputes: s.listDisputes,
		ListWarnings: s.listWarnings,
	} {
		s.Calls.Handle(s.mux, pattern, func(r *http.Request, body []byte) fakes.Reply { return s.answer(r, body, act) })
	}
	s.mux.HandleFunc("GET /c/pay/{id}", s.showPage)
	s.mux.HandleFunc("POST /c/pay/{id}", s.choose)
	s.control()
	return s
}

func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.limited(w, r) {
		s.mux.ServeHTTP(w, r)
	}
}

// SetRules replaces how banks decide.
func (s *Server) SetRules(r Rules) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = r
}

// call is an authenticated call.
type call struct {
	id     string // from the path of the call
	form   url.Values
	expand string
}

func (s *Server) answer(r *http.Request, body []byte, act func(call) fakes.Reply) fakes.Reply {
	// docs.stripe.com/api/authentication
	if r.Header.Get("Authorization") != "Bearer "+s.opts.Key {
		return forget(refuse(http.StatusUnauthorized, invalidRequest, "", "Invalid API Key provided"))
	}
	text := r.URL.RawQuery
	if r.Method == http.MethodPost {
		text = string(body)
	}
	form, err := url.ParseQuery(text)
	if err != nil {
		return forget(refuse(http.StatusBadRequest, invalidRequest, "", err.Error()))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return act(call{id: r.PathValue("id"), form: form, expand: form.Get("expand[0]")})
}

// number returns a parameter as a number; 0 if it is missing, or not a number.
func (c call) number(name string) int64 {
	n, _ := strconv.ParseInt(c.form.Get(name), 10, 64)
	return n
}

// metadata returns the parameters whose names are prefix[key], by key.
func (c call) metadata(prefix string) map[string]string {
	found := map[string]string{}
	for name := range c.form {
		if key, ok := strings.CutPrefix(name, prefix+"["); ok {
			found[strings.TrimSuffix(key, "]")] = c.form.Get(name)
		}
	}
	return found
}

// refuse makes an answer with an error, as docs.stripe.com/api/errors describes it.
func refuse(status int, kind, code, message string) fakes.Reply {
	return refuseWith(status, map[string]any{"type": kind, "code": code, "message": message})
}

func refuseWith(status int, fields map[string]any) fakes.Reply {
	if fields["code"] == "" {
		delete(fields, "code")
	}
	return fakes.JSON(status, map[string]any{"error": fields})
}

// forget returns r as an answer that is not kept under its idempotency key.
func forget(r fakes.Reply) fakes.Reply {
	r.Forgotten = true
	return r
}

func missing(id string) fakes.Reply {
	return refuse(http.StatusNotFound, invalidRequest, "resource_missing", "No such object: "+id)
}

func newID(prefix string) string { return prefix + rand.Text() }

// event queues a webhook about an object, as docs.stripe.com/api/events/object describes it.
func (s *Server) event(kind string, object map[string]any) {
	body, err := json.Marshal(map[string]any{
		"id": newID("evt_"), "object": "event", "api_version": apiVersion, "created": s.opts.Now().Unix(), "livemode": false, "type": kind,
		"data": map[string]any{"object": object},
	})
	if err == nil {
		s.Webhooks.Send(body)
	}
}

func (s *Server) sign(body []byte, at time.Time) map[string]string {
	return map[string]string{"stripe-signature": Sign(s.opts.WebhookSecret, body, at)}
}

// Sign returns a webhook's signature at a time (docs.stripe.com/webhooks#verify-manually).
func Sign(secret string, body []byte, at time.Time) string {
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte(stamp + "."))
	mac.Write(body)
	return "t=" + stamp + ",v1=" + hex.EncodeToString(mac.Sum(nil))
}
