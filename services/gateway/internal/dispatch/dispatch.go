// Package dispatch has the HTTP handler of the gateway. It finds the route of a request, identifies
// the caller, applies rate limits and checks, and calls the route's handler. Frequent polls skip
// the tracing middleware: that is the fast path.
package dispatch

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
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
	"urr.guru/services/gateway/internal/audit"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/problem"
)

// maxIdempotencyKey is the longest Idempotency-Key, in bytes of visible ASCII.
const maxIdempotencyKey = 255

// maxIfMatch is the longest header If-Match, in bytes of ASCII.
const maxIfMatch = 1024

// Values of the security headers, built once per process since every response has them.
var (
	sameOrigin      = []string{"same-origin"}
	denyFrames      = []string{"DENY"}
	apiPolicy       = []string{"default-src 'none'; frame-ancestors 'none'"}
	strictTransport = []string{"max-age=63072000; includeSubDomains"}
)

// Config has the settings of a Dispatcher.
type Config struct {
	Table    *edge.Table
	Guard    *edge.Guard
	Tokens   *identity.Verifier
	Cookies  identity.Cookies
	Limits   *limit.Limiter
	Proxies  limit.Proxies
	Problems *problem.Writer
	// Audit records operators' acts; nil only if no route of the table is for such acts.
	Audit *audit.Log
	// OriginSecrets are the accepted values of X-CloudFront-Verified, separated by commas. Requests
	// with none of them are refused. Empty: the header is not required.
	OriginSecrets config.Secret
	// Trusted are other origins (such as https://shop.example) whose pages may send requests.
	Trusted []string
	// Secure says that browsers use only https.
	Secure bool
	// PayHost is the host of the payment page, with its port unless that is the default one; "" means
	// that there is no such page. Pay serves all requests of this host.
	PayHost string
	Pay     http.Handler
	Log     *slog.Logger
}

// Dispatcher is the http.Handler of all requests.
type Dispatcher struct {
	Config

	successes map[*edge.Route]prometheus.Observer
	origins   *http.CrossOriginProtection
	guard     originGuard
	regular   http.Handler // the routes outside the fast path
	traced    bool         // whether tracing is on: regular then makes a span per request
}

// New makes a Dispatcher. A route without a handler is an error.
func New(cfg Config) (*Dispatcher, error) {
	d := &Dispatcher{
		Config: cfg, successes: durationObservers(cfg.Table.Routes()), origins: http.NewCrossOriginProtection(),
	}
	d.SetOriginSecrets(cfg.OriginSecrets)
	for _, o := range cfg.Trusted {
		if err := d.origins.AddTrustedOrigin(o); err != nil {
			return nil, fmt.Errorf("trusted origin %q: %w", o, err)
		}
	}
	for _, r := range cfg.Table.Routes() {
		if r.Handler == nil {
			return nil, fmt.Errorf("route %s (%s) has no handler", r, r.ID)
		}
		if r.Audited() && cfg.Audit == nil {
			return nil, fmt.Errorf("route %s (%s) is an operator's act, and nothing records it", r, r.ID)
		}
	}
	d.traced = telemetry.Enabled()
	d.regular = http.HandlerFunc(d.serveRegular)
	if d.traced {
		d.regular = otelhttp.NewHandler(d.regular, "http",
			// A client's trace context becomes only a link of the new trace. Its baggage is not read, since
			// it would be sent on with every call.
			otelhttp.WithPropagators(propagation.TraceContext{}),
			otelhttp.WithPublicEndpointFn(func(*http.Request) bool { return true }), // a client must not decide what is sampled
			otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.Pattern }))
	}
	return d, nil
}

// SetOriginSecrets replaces the secrets of Config. It may be called while requests are served.
func (d *Dispatcher) SetOriginSecrets(secrets config.Secret) { d.guard.setSecrets(secrets) }

func (d *Dispatcher) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q, began := &edge.Request{Header: r.Header}, time.Now()
	err := d.guard.checkHeader(r.Header)
	if err == nil && d.PayHost != "" && strings.EqualFold(r.Host, d.PayHost) {
		d.servePayHost(w, r)
		return
	}
	defer d.observeDuration(q, began)
	if err == nil {
		q.Path, err = edge.CleanPath(r.URL.Path)
	}
	if err == nil {
		q.Match, err = d.Table.Match(r.Method, q.Path)
	}
	if err == nil && q.Route.Refusal != nil {
		err = q.Route.Refusal()
	}
	defer d.recoverPanic(w, r, q)
	if err != nil {
		err = d.limitRefusal(r, err)
	} else {
		err = d.identify(w, r, q)
	}
	if err != nil {
		d.setSecurityHeaders(w.Header())
		d.Fail(w, r, q, err)
		return
	}
	if !q.Route.FastPath || q.Route.Traced && d.traced {
		r = r.WithContext(edge.WithRequest(r.Context(), q))
		r.Pattern = q.Route.Pattern
		d.regular.ServeHTTP(w, r)
		return
	}
	if err := d.serve(w, r, q); err != nil {
		d.setSecurityHeaders(w.Header())
		d.Fail(w, r, q, err)
	}
}

// servePayHost serves a request of PayHost. It finds no route and reads no cookies.
func (d *Dispatcher) servePayHost(w http.ResponseWriter, r *http.Request) {
	d.setSecurityHeaders(w.Header())
	if d.limitRefusal(r, nil) != nil {
		http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
		return
	}
	d.Pay.ServeHTTP(w, r)
}

// serveRegular serves a request outside the fast path; with tracing, the middleware calls it.
func (d *Dispatcher) serveRegular(w http.ResponseWriter, r *http.Request) {
	q := edge.RequestFrom(r.Context())
	q.ID = ids.NewV7().String()
	ctx := telemetry.WithRequestID(r.Context(), q.ID)
	if !q.Route.Stream {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, q.Route.Timeout)
		defer cancel()
	}
	r = r.WithContext(ctx)
	d.setHeaders(w.Header(), q)
	defer d.recoverPanic(w, r, q)
	if err := d.serve(w, r, q); err != nil {
		d.Fail(w, r, q, err)
	}
}

// setHeaders sets the headers of every response. Pages set their own Content-Security-Policy.
func (d *Dispatcher) setHeaders(h http.Header, q *edge.Request) {
	h["X-Request-Id"] = []string{q.ID}
	d.setSecurityHeaders(h)
	if q.Route.Page {
		delete(h, "Content-Security-Policy")
	} else {
		h["Cache-Control"] = edge.NoStore
	}
}

// setSecurityHeaders sets the headers that forbid browsers to execute, frame or share a response.
// They are few, since Go's map is slower with more than eight. Pages set Referrer-Policy too.
func (d *Dispatcher) setSecurityHeaders(h http.Header) {
	h["X-Content-Type-Options"] = edge.Nosniff
	h["X-Frame-Options"] = denyFrames
	h["Cross-Origin-Resource-Policy"] = sameOrigin
	h["Content-Security-Policy"] = apiPolicy
	if d.Secure {
		h["Strict-Transport-Security"] = strictTransport
	}
}

// serve checks a request, cheap checks first, and calls the handler of its route.
func (d *Dispatcher) serve(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	if err := d.applyLimits(r, q); err != nil {
		return err
	}
	if err := checkQuery(r.URL.RawQuery, q); err != nil {
		return err
	}
	if err := d.readIdempotencyKey(q); err != nil {
		return err
	}
	if err := d.readIfMatch(q); err != nil {
		return err
	}
	// Routes whose event is in the body need the body for the checks. All others read it after them.
	if q.Route.Event == edge.FromBody {
		if err := readBody(w, r, q); err != nil {
			return err
		}
	}
	if err := d.Guard.Check(r.Context(), q); err != nil {
		return err
	}
	if q.Route.Event != edge.FromBody {
		if err := readBody(w, r, q); err != nil {
			return err
		}
	}
	if q.Route.Audited() {
		return d.serveAct(w, r, q)
	}
	return q.Route.Handler(w, r, q)
}

// limitRefusal counts a request that is refused with err before its caller is known. Anybody can
// send such requests, and one costs as much as a poll, so it counts as a poll of the client's
// address. It returns the error of the rate limit if that is exceeded, else err.
func (d *Dispatcher) limitRefusal(r *http.Request, err error) error {
	if limited := d.Limits.CountPoll(limit.Subject{Address: d.Proxies.Client(r)}); limited != nil {
		return limited
	}
	return err
}

// identify sets the session, the visitor and the address of a request from its cookies and headers.
// It fails if another site sent the request, or if Route.RefusalFromMemory returns an error.
func (d *Dispatcher) identify(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
	if q.Route.Mutates() {
		if err := d.origins.Check(r); err != nil {
			return d.limitRefusal(r, errs.ErrCrossOrigin.Wrap(err))
		}
	}
	q.Session, q.SessionErr = d.Tokens.Session(q.Header)
	if visitor, ok := d.Tokens.Visitor(q.Header); ok {
		q.Visitor, q.VisitorID = visitor, visitor.String()
		if d.Tokens.ShowsFormerPosition(q.Header, q.EventInPath(), visitor) {
			q.VisitorID = visitor.Former.String()
		}
	}
	q.Address = d.Proxies.Client(r)
	if q.Route.RefusalFromMemory == nil {
		return nil
	}
	err := q.Route.RefusalFromMemory(w, q)
	if err == nil {
		return nil
	}
	if limited := d.Limits.CountPoll(subject(q)); limited != nil { // the refusal costs as much as a poll
		w.Header().Del("Set-Cookie") // a limited call gets no id
		return limited
	}
	return err
}

// applyLimits counts the request, and fails with errs.ErrRateLimited if it exceeds a rate limit.
func (d *Dispatcher) applyLimits(r *http.Request, q *edge.Request) error {
	s := subject(q)
	switch q.Route.Limit() {
	case edge.LimitSignIns:
		return d.Limits.CountSignIn(r.Context(), s)
	case edge.LimitMutations:
		return d.Limits.CountMutation(r.Context(), s)
	default:
		return d.Limits.CountPoll(s)
	}
}

// subject returns the address, visitor and user for which a request counts.
func subject(q *edge.Request) limit.Subject {
	return limit.Subject{Address: q.Address, Visitor: q.VisitorID, User: q.User()}
}

// readIdempotencyKey stores the header Idempotency-Key of a mutating request in q. It must be visible
// ASCII, quoted or not.
func (d *Dispatcher) readIdempotencyKey(q *edge.Request) error {
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

// readIfMatch stores the header If-Match of a mutating request in q, with several lines joined
// (RFC 9110 §5.3). The service that has the resource compares it with the resource's version.
func (d *Dispatcher) readIfMatch(q *edge.Request) error {
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

// Fail responds with an error. On a page route, an error with the metadata "redirectTo" redirects
// the browser. Every other error becomes a problem document (RFC 9457).
func (d *Dispatcher) Fail(w http.ResponseWriter, r *http.Request, q *edge.Request, err error) {
	e := errs.From(err)
	if e.Kind == errs.Canceled && !errors.Is(r.Context().Err(), context.Canceled) {
		// The browser still waits: a call inside was given up, for instance by a process that stops.
		e = errs.ErrUnavailable.WithRetry(time.Second).Wrap(err)
	}
	q.Refused = e
	if to := problem.RedirectTo(e); to != "" && q.Route != nil && q.Route.Page && isNavigation(r) {
		w.Header().Set("Cache-Control", "no-store")
		http.Redirect(w, r, withQuery(to, r.URL.RawQuery), http.StatusFound)
		return
	}
	if q.ID == "" {
		q.ID = ids.NewV7().String()
		w.Header().Set("X-Request-Id", q.ID)
	}
	d.Problems.Write(w, r, q.ID, e)
}

// withQuery adds the query of a page's request to the path of a redirect, unless that path has a
// query. So the query of a link is still there after both waiting rooms. Browsers add the fragment
// themselves.
func withQuery(path, query string) string {
	whole := path + "?" + query
	if query == "" || strings.Contains(path, "?") || !edge.OwnPath(whole) {
		return path
	}
	return whole
}

// isNavigation reports whether a person opened the address, not a program that asks for JSON.
func isNavigation(r *http.Request) bool {
	accept := r.Header.Get("Accept")
	return strings.Contains(accept, "text/html") || !strings.Contains(accept, "json")
}

// recoverPanic turns a panic of a handler into an error response and a log line with the stack.
func (d *Dispatcher) recoverPanic(w http.ResponseWriter, r *http.Request, q *edge.Request) {
	p := recover()
	if p == nil {
		return
	}
	if p == http.ErrAbortHandler { //nolint:errorlint // net/http compares it the same way
		panic(p)
	}
	d.setSecurityHeaders(w.Header())
	trace.SpanFromContext(r.Context()).RecordError(fmt.Errorf("panic: %v", p))
	d.Fail(w, r, q, errs.FromPanic(p))
}
