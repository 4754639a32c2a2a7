// Package stripe is the client of Stripe. The buyer pays on Stripe's page (Checkout), which only
// authorises, and a capture takes the money. The session is looked up by its id, never by a search.
// No card data reaches this service.
package stripe

import (
	"bytes"
	"cmp"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"urr.guru/pkg/config"
	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

// Name is the provider's name in settings and stored payments.
const Name = "stripe"

// The calls per second that Stripe takes of an account in all, with a live and with a test key
// (docs.stripe.com/rate-limits, 2026-11).
const (
	LivePerSecond = 100
	TestPerSecond = 25
)

// RefundEndpoint is the endpoint of refunds.
const RefundEndpoint = "POST /v1/refunds"

// endpoints are the requests of a Client.
var endpoints = []string{ //nolint:gochecknoglobals // a constant
	"POST /v1/checkout/sessions", "GET /v1/checkout/sessions/{id}", "POST /v1/checkout/sessions/{id}/expire",
	"GET /v1/payment_intents/{id}", "POST /v1/payment_intents/{id}/capture", "POST /v1/payment_intents/{id}/cancel",
	RefundEndpoint, "GET /v1/refunds", "GET /v1/disputes", "GET /v1/balance_transactions",
}

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
	// Budget limits the calls; nil: there is no limit.
	Budget *budget.Budget
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
	opts.PageTime = cmp.Or(opts.PageTime, defaultPageTime)
	// The client has no timeout, since every call has the deadline of its context.
	caller := &http.Client{Transport: outbound.New(outbound.Options{
		Provider: Name, Endpoints: endpoints, Budget: opts.Budget, Limited: limited, MaxAnswer: maxAnswer, Now: opts.Now, Base: opts.Transport,
	})}
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
		KeyLife: keyLife, InFlight: inFlight, Currencies: limits(),
	}
}

// limited reports whether an answer with status 429 means that there were too many requests. Without a
// reason it may be a lock on the object of the request.
func limited(headers http.Header, body []byte) (tooMany, inAll bool) {
	reason := headers.Get("Stripe-Rate-Limited-Reason")
	locked := bytes.Contains(body, []byte(api.ErrorCodeLockTimeout))
	return reason != "" || !locked, strings.HasPrefix(reason, "global-")
}
