// Package front is the gateway's HTTP handler: it finds the route of a request, who asks, whether it may pass, and hands it to the
// route's handler. Hot polls skip what only the others need.
package front

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/ids"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/problem"
)

// maxIdempotencyKey is the longest Idempotency-Key, in bytes of visible ASCII.
const maxIdempotencyKey = 255

// maxIfMatch bounds the header If-Match, in bytes of ASCII.
const maxIfMatch = 1024

// Config is what a Front is made of.
type Config struct {
	Table    *edge.Table
	Guard    *edge.Guard
	Tokens   *identity.Verifier
	Cookies  identity.Cookies
	Limits   *limit.Limiter
	Proxies  limit.Proxies
	Problems *problem.Writer
	// Handlers by the id of their route. Pass serves every route that has an RPC.
	Handlers map[string]edge.Handler
	Pass     edge.Handler
	// OriginSecrets are the values of X-CloudFront-Verified that a CDN may send, separated by commas:
	// requests with none of them are refused. Empty: requests may come from anywhere.
	OriginSecrets config.Secret
	// Trusted are other origins (as https://shop.example) from which pages may send requests.
	Trusted []string
	// Secure says that browsers come by https only.
	Secure bool
	Log    *slog.Logger
}

// Front is an http.Handler.
type Front struct {
	Config

	handlers map[*edge.Route]edge.Handler
	served   map[*edge.Route]prometheus.Observer
	origins  *http.CrossOriginProtection
	guard    originGuard
	general  http.Handler
}

// New makes a Front. A route without a handler, or a handler without a route, is an error.
func New(cfg Config) (*Front, error) {
	f := &Front{
		Config: cfg, handlers: make(map[*edge.Route]edge.Handler), served: observers(cfg.Table.Routes()),
		origins: http.NewCrossOriginProtection(),
	}
	f.SetOriginSecrets(cfg.OriginSecrets)
	for _, o := range cfg.Trusted {
		if err := f.origins.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("trusted origin %q: %w", o, err)
		}
	}
	used := 0
	for _, r := range cfg.Table.Routes() {
		h := cfg.Pass
		if r.RPC == "" {
			h = cfg.Handlers[r.ID]
			used++
		}
		if h == nil {
			return nil, fmt.Errorf("route %s (%s) has no handler", r, r.ID)
		}
		f.handlers[r] = h
	}
	if used != len(cfg.Handlers) {
		return nil, fmt.Errorf("%d handlers for %d hand-written routes", len(cfg.Handlers), used)
	}
	f.general = otelhttp.NewHandler(http.HandlerFunc(f.serveGeneral), "http",
		// Clients' trace context is linked to; their baggage, which would travel on with every
		// call, is not read.
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }), // a browser must not choose what is sampled
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.Pattern }))
	return f, nil
}

// SetOriginSecrets replaces Config.OriginSecrets while requests are served.
func (f *Front) SetOriginSecrets(secrets config.Secret) { f.guard.accept(secrets) }

// ServeHTTP implements http.Handler.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &edge.Request{Header: r.Header}
	defer f.observe(q, time.Now())
	err := f.guard.check(r.Header)
	if err == nil {
		q.Path, err = edge.CleanPath(r.URL.Path)
	}
	if err == nil {
		q.Match, err = f.Table.Match(r.Method, q.Path)
	}
	if err != nil {
		f.armour(w.Header())
		f.Fail(w, r, q, err)
		return
	}
	if !q.Route.Hot {
		r = r.WithContext(edge.WithRequest(r.Context(), q))
		r.Pattern = q.Route.Pattern
		f.general.ServeHTTP(w, r)
		return
	}
	defer f.recover(w, r, q)
	if err := f.serve(w, r, q); err != nil {
		f.armour(w.Header())
		f.Fail(w, r, q, err)
	}
}

// serveGeneral is what surrounds every route that is not hot.
func (f *Front) serveGeneral(w http.ResponseWriter, r *http.Request) {
	q := edge.RequestFrom(r.Context())
	q.ID = ids.NewV7().String()
	ctx, cancel := context.WithTimeout(telemetry.WithRequestID(r.Context(), q.ID), q.Route.Timeout)
	defer cancel()
	r = r.WithContext(ctx)
	f.headers(w.Header(), q)
	defer f.recover(w, r, q)
	if err := f.serve(w, r, q); err != nil {
		f.Fail(w, r, q, err)
	}
}

// headers are those of every answer; pages have a policy of their own and set it themselves.
func (f *Front) headers(h http.Header, q *edge.Request) {
	h.Set("X-Request-Id", q.ID)
	f.armour(h)
	if q.Route.Page {
		h.Del("Content-Security-Policy")
	} else {
		h.Set("Cache-Control", "no-store")
	}
}

// armour tells browsers to do nothing with an answer but read it.
func (f *Front) armour(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	if f.Secure {
		h.Set("Strict-Transport-Security", "max-age=63072000; includeSubDomains")
	}
}

// serve is the way of every request: who asks, how often, with what, whether the edge lets it pass, and the handler. What the cheapest
// check refuses costs nothing more.
func (f *Front) serve(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	if q.Route.Mutates() {
		if err := f.origins.Check(r); err != nil {
			return errs.ErrCrossOrigin.Wrap(err)
		}
	}
	f.identify(q)
	if err := f.limit(r, q); err != nil {
		return err
	}
	if err := checkQuery(r.URL.RawQuery, q); err != nil {
		return err
	}
	if err := f.idempotency(q); err != nil {
		return err
	}
	if err := f.ifMatch(q); err != nil {
		return err
	}
	// The event of some routes stands in the body; of all others nobody reads a body before it is clear that they may send one.
	if q.Route.Event == edge.FromBody {
		if err := readBody(w, r, q); err != nil {
			return err
		}
	}
	if err := f.Guard.Check(r.Context(), q); err != nil {
		return err
	}
	if q.Route.Event != edge.FromBody {
		if err := readBody(w, r, q); err != nil {
			return err
		}
	}
	if q.NewAnon != "" {
		f.Cookies.Set(w, identity.AnonCookie, q.NewAnon, f.Cookies.Now().Add(identity.AnonLife))
	}
	return f.handlers[q.Route](w, r, q)
}

func (f *Front) identify(q *edge.Request) {
	q.Session, q.SessionErr = f.Tokens.Session(q.Header)
	q.Anon = f.Tokens.Anon(q.Header)
	if q.Anon == "" && q.Route.Issues {
		q.Anon, q.NewAnon = f.Tokens.NewAnon()
	}
}

// limit counts the request. A visitor's id that this request made is nobody's history, so it is the
// network that bounds new visitors.
func (f *Front) limit(r *http.Request, q *edge.Request) error {
	s := limit.Subject{Address: f.Proxies.Client(r), User: q.User(), New: q.NewAnon != ""}
	if !s.New {
		s.Visitor = q.Anon
	}
	if q.Route.Mutates() && !q.Route.Poll || s.New {
		return f.Limits.Mutation(r.Context(), s)
	}
	return f.Limits.Poll(s)
}

// idempotency passes the key on as it was sent: visible ASCII, quoted or not.
func (f *Front) idempotency(q *edge.Request) error {
	if !q.Route.Mutates() {
		return nil
	}
	keys := q.Header[identity.IdempotencyHeader]
	if len(keys) == 0 {
		return nil
	}
	key := keys[0]
	if len(keys) > 1 || len(key) > maxIdempotencyKey || strings.ContainsFunc(key, func(c rune) bool { return c <= ' ' || c > '~' }) {
		return errs.ErrIdempotencyKeyInvalid
	}
	q.IdempotencyKey = key
	return nil
}

// ifMatch passes the condition on as it was sent, the lines of a list as one (RFC 9110 §5.3). Who owns the resource reads it.
func (f *Front) ifMatch(q *edge.Request) error {
	if !q.Route.Mutates() {
		return nil
	}
	list := strings.Join(q.Header[identity.IfMatchHeader], ", ")
	if len(list) > maxIfMatch || strings.ContainsFunc(list, func(c rune) bool { return c < ' ' || c > '~' }) {
		return errs.ErrInvalidRequest.WithFields(errs.Field{Path: identity.IfMatchHeader, Message: "must be * or a list of entity tags"})
	}
	q.IfMatch = list
	return nil
}

// Fail answers with an error: a page's with where to go, if there is such a place, everything else's with a problem document.
func (f *Front) Fail(w http.ResponseWriter, r *http.Request, q *edge.Request, err error) {
	e := errs.From(err)
	q.Refused = e
	if to := problem.RedirectTo(e); to != "" && q.Route != nil && q.Route.Page && navigates(r) {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, to, http.StatusFound)
		return
	}
	if q.ID == "" {
		q.ID = ids.NewV7().String()
		w.Header().Set("X-Request-Id", q.ID)
	}
	f.Problems.Write(w, r, q.ID, e)
}

// navigates tells a person's navigation from a program that asks for JSON.
func navigates(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "text/html") || !strings.Contains(accept, "json")
}

// recover turns a panic of a handler into an answer, and a log line with its stack.
func (f *Front) recover(w http.ResponseWriter, r *http.Request, q *edge.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it likewise
		panic(p)
	}
	trace.SpanFromContext(r.Context()).RecordError(fmt.Errorf("panic: %v", p))
	f.Fail(w, r, q, errs.ErrInternal.Wrap(fmt.Errorf("panic: %v\n%s", p, debug.Stack())))
}
