// Package stripe is the client of Stripe. The buyer pays on Stripe's page (Checkout), which only
// authorises, and a capture takes the money. The session is looked up by its id, never by a search.
// No card data reaches this service.
package stripe

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/stripe/stripe-go/v85"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/config"
	"urr.guru/services/payment/internal/fence"
	"urr.guru/services/payment/internal/payment"
)

// Name is the provider's name in settings and stored payments.
const Name = "stripe"

// PerSecond is the most calls of each kind (charge, refund, look-up) that one process sends per
// second. Stripe accepts 25 from an address (docs.stripe.com/rate-limits).
const PerSecond = 20

const (
	defaultPageTime = 12 * time.Minute
	// chargeTime is long, since a capture that times out must be looked up.
	chargeTime = 30 * time.Second
	callTime   = 10 * time.Second
	listTime   = time.Minute // each entry includes other objects
	// keyLife is less than 24 h, for which Stripe keeps a key at least.
	keyLife  = 20 * time.Hour
	inFlight = 2 * time.Minute
	// maxAnswer is the most bytes of an answer that are read.
	maxAnswer = 1 << 20
)

// Options are the options of a Client.
type Options struct {
	// URL is the API's address; empty: Stripe's own.
	URL string
	// ReturnURL is the address to which the page sends buyers back.
	ReturnURL string
	// PageTime is how long the buyer has on the page; default 12min.
	PageTime time.Duration
	// Now and Transport are set by tests only; nil: time.Now, and connections to Stripe.
	Now       func() time.Time
	Transport http.RoundTripper
}

// Secrets are the key of the API and the secrets that sign its webhooks.
type Secrets struct {
	Key config.Secret
	// Webhooks has the form secret[,secret…]; any of them verifies a webhook.
	Webhooks config.Secret
}

// Client calls Stripe's API, and verifies its webhooks.
type Client struct {
	opts      Options
	backends  *api.Backends
	closeIdle func()
	current   atomic.Pointer[keyed]
}

// keyed has what depends on the secrets in a Client.
type keyed struct {
	api      *api.Client
	webhooks []string
}

var _ payment.Provider = (*Client)(nil)

// NewClient returns a Client of Stripe's API, or of another server at opts.URL.
func NewClient(secrets Secrets, opts Options) *Client {
	if opts.Transport == nil {
		opts.Transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
			TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.PageTime = cmp.Or(opts.PageTime, defaultPageTime)
	// The client has no timeout, since every call has the deadline of its context.
	caller := &http.Client{Transport: transport{base: opts.Transport, now: opts.Now}}
	backend := &api.BackendConfig{
		MaxNetworkRetries: api.Int64(0), EnableTelemetry: api.Bool(false), HTTPClient: caller,
		LeveledLogger: &api.LeveledLogger{Level: api.LevelNull}, // the library would log whole answers
	}
	if opts.URL != "" {
		backend.URL = api.String(strings.TrimSuffix(opts.URL, "/"))
	}
	c := &Client{opts: opts, backends: api.NewBackendsWithConfig(backend), closeIdle: caller.CloseIdleConnections}
	c.Rekey(secrets)
	return c
}

// Rekey replaces the secrets.
func (c *Client) Rekey(secrets Secrets) {
	c.current.Store(&keyed{
		api:      api.NewClient(secrets.Key.Reveal(), api.WithBackends(c.backends)),
		webhooks: strings.Split(secrets.Webhooks.Reveal(), ","),
	})
}

func (c *Client) Close() { c.closeIdle() }

func (c *Client) api() *api.Client { return c.current.Load().api }

// Capabilities returns what Stripe can do. Since a cancelled intent cannot be captured, an unknown
// charge may be voided as soon as its call has ended.
func (c *Client) Capabilities() payment.Capabilities {
	return payment.Capabilities{
		Void: true, NoKeys: true, PageTime: c.opts.PageTime, Finality: chargeTime, ChargeTime: chargeTime, CallTime: callTime, ListTime: listTime,
		KeyLife: keyLife, InFlight: inFlight,
	}
}

// transport sends each request once; that of net/http would repeat one with an Idempotency-Key.
type transport struct {
	base http.RoundTripper
	now  func() time.Time
}

// notAfter is the context key of the time after which a request must not be sent.
type notAfter struct{}

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx, span := otel.Tracer("urr.guru/services/payment/stripe").Start(r.Context(), r.Method+" stripe", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	out := r.Clone(ctx)
	if limit, ok := ctx.Value(notAfter{}).(time.Time); ok {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return nil, err
		}
		fence.Set(out, body, limit, t.now)
	}
	out.GetBody = nil
	resp, err := t.base.RoundTrip(out)
	if err != nil {
		span.RecordError(err)
		return nil, err
	}
	resp.Body = limited{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

// CloseIdleConnections closes the idle connections of base. http.Client calls it.
func (t transport) CloseIdleConnections() {
	if closer, ok := t.base.(interface{ CloseIdleConnections() }); ok {
		closer.CloseIdleConnections()
	}
}

type limited struct {
	io.Reader
	io.Closer
}

// sentUntil returns a context whose request must not be sent after limit.
func sentUntil(ctx context.Context, limit time.Time) context.Context {
	return context.WithValue(ctx, notAfter{}, limit)
}
