// Package toss is the client of Toss Payments. It uses the public HTTP API of
// https://docs.tosspayments.com. The vendor has no library for Go, and six calls need none.
//
// The buyer pays on a page of the shop that runs the vendor's script. The page only authorises: the
// confirmation that this client sends takes the money.
package toss

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/config"
	"urr.guru/services/payment/internal/fence"
	"urr.guru/services/payment/internal/payment"
)

// Name is the provider's name in settings and stored payments.
const Name = "toss"

// currency is the only accepted currency: Toss uses fractions in amounts of other currencies.
const currency = "KRW"

// PerSecond is the most calls of each kind per second by one process. The vendor states no limit.
const PerSecond = 10

// An authorisation lasts 10 min, and a confirmation takes up to 60 s. So no charge can be made 15
// min (finality) after the last confirmation. Toss keeps idempotency keys for 15 days, counted by
// the day. After callTime a cancellation may take effect for as long as a confirmation takes.
const (
	vendorURL       = "https://api.tosspayments.com"
	defaultPageTime = 12 * time.Minute
	finality        = 15 * time.Minute
	chargeTime      = time.Minute
	callTime        = 10 * time.Second
	keyLife         = 14 * 24 * time.Hour
	inFlight        = callTime + chargeTime
	maxAnswer       = 256 << 10 // bytes
	maxKey          = 200       // characters of a payment key
)

// Client calls Toss Payments.
type Client struct {
	opts   Options
	secret atomic.Pointer[string]
	http   *http.Client
}

// Options are the options of a Client.
type Options struct {
	// URL is the API's address; empty: the vendor's. PageURL is the address of the shop's page.
	URL, PageURL string
	// PageTime is how long the buyer has on the page; default 12min.
	PageTime time.Duration
	Log      *slog.Logger
	// Now and Transport are set by tests only; nil: time.Now, and connections to Toss.
	Now       func() time.Time
	Transport http.RoundTripper
}

var _ payment.Provider = (*Client)(nil)

// NewClient returns a Client that sends the secret key with every call.
func NewClient(secretKey config.Secret, opts Options) *Client {
	if opts.Transport == nil {
		opts.Transport = &http.Transport{
			DialContext: (&net.Dialer{Timeout: 2 * time.Second}).DialContext, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
			ForceAttemptHTTP2: true,
		}
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	opts.URL, opts.PageTime = strings.TrimSuffix(cmp.Or(opts.URL, vendorURL), "/"), cmp.Or(opts.PageTime, defaultPageTime)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	// Every call has the deadline of its context. Redirects are not followed, so that the key is sent
	// to no other address.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	c := &Client{opts: opts, http: &http.Client{Transport: opts.Transport, CheckRedirect: noRedirect}}
	c.Rekey(secretKey)
	return c
}

// Rekey replaces the secret key.
func (c *Client) Rekey(secretKey config.Secret) {
	key := secretKey.Reveal()
	c.secret.Store(&key)
}

func (c *Client) Close() { c.http.CloseIdleConnections() }

// Capabilities returns what Toss can do. A confirmed payment can only be refunded: no void.
func (c *Client) Capabilities() payment.Capabilities {
	return payment.Capabilities{
		PageTime: c.opts.PageTime, Finality: finality, ChargeTime: chargeTime, CallTime: callTime, ListTime: listTime, KeyLife: keyLife,
		InFlight: inFlight,
	}
}

// Open returns the address of the shop's page, without a call to Toss. The address's fragment
// contains what is paid, and the token that authenticates the buyer on return.
func (c *Client) Open(_ context.Context, p payment.Payment) (payment.Page, error) {
	if p.Currency != currency {
		return payment.Page{}, fmt.Errorf("%w: toss takes no %s", payment.ErrKeySpent, p.Currency)
	}
	fragment := url.Values{
		"order": {p.OrderID}, "amount": {strconv.FormatInt(p.Amount, 10)}, "event": {p.EventID}, "token": {p.Token},
	}
	return payment.Page{URL: c.opts.PageURL + "#" + fragment.Encode()}, nil
}

// errReturn is returned for parameters with which the shop's page sends nobody back.
var errReturn = errors.New("the address is none that our page has made")

func (c *Client) Return(params map[string]string) (payment.Auth, error) { return DecodeReturn(params) }

// DecodeReturn decodes the parameters with which buyers come back. After a success Toss has added
// the payment key, the order and the amount. After a failure it adds no key, and if the buyer gave
// up, no order either.
func DecodeReturn(params map[string]string) (payment.Auth, error) {
	auth := payment.Auth{OrderID: params["order"], Token: params["token"], Key: params["paymentKey"]}
	named, ok := params["orderId"]
	if auth.OrderID == "" || ok && named != auth.OrderID || len(auth.Key) > maxKey {
		return payment.Auth{}, errReturn
	}
	if auth.Key == "" {
		return auth, nil
	}
	var err error
	if auth.Amount, err = strconv.ParseInt(params["amount"], 10, 64); err != nil || auth.Amount <= 0 {
		return payment.Auth{}, errReturn
	}
	return auth, nil
}

// ParseWebhook decodes a webhook. Toss does not sign webhooks about payments, so anybody can send
// one: it only makes the sweeper ask Toss. The secret in its body is not compared: it would have to
// be stored, and would save only that look-up.
func (c *Client) ParseWebhook(_ map[string]string, body []byte, _ time.Time) (payment.Notice, error) {
	var event struct {
		Type string `json:"eventType"`
		Data struct {
			OrderID string `json:"orderId"`
			Status  string `json:"status"`
		} `json:"data"`
	}
	if err := json.Unmarshal(body, &event); err != nil || event.Type != "PAYMENT_STATUS_CHANGED" {
		return payment.Notice{}, nil //nolint:nilerr // anybody can send this, so it is ignored
	}
	refund := event.Data.Status == "CANCELED" || event.Data.Status == "PARTIAL_CANCELED"
	return payment.Notice{OrderID: event.Data.OrderID, Refund: refund}, nil
}

// request is one call. key is its idempotency key. It is not sent after notAfter, unless that is
// zero.
type request struct {
	method, path, key string
	body              any
	notAfter          time.Time
}

// call sends a request and decodes the answer into got. If Toss refuses, the error is an *apiError.
// After any other error the outcome is unknown.
func (c *Client) call(ctx context.Context, q request, got any) error {
	ctx, span := otel.Tracer("urr.guru/services/payment/toss").Start(ctx, q.method+" toss", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	req, err := c.newRequest(ctx, q)
	if err != nil {
		return fmt.Errorf("toss request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		span.RecordError(err)
		return fmt.Errorf("toss: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return fmt.Errorf("toss answer: %w", err)
	}
	if resp.StatusCode == http.StatusOK {
		if err := json.Unmarshal(body, got); err != nil {
			return fmt.Errorf("toss answer: %w", err)
		}
		return nil
	}
	refusal := &apiError{}
	if err := json.Unmarshal(body, refusal); err != nil || refusal.Code == "" {
		return fmt.Errorf("toss answers with status %d, and no code", resp.StatusCode)
	}
	return refusal
}

func (c *Client) newRequest(ctx context.Context, q request) (*http.Request, error) {
	var body []byte
	if q.body != nil {
		var err error
		if body, err = json.Marshal(q.body); err != nil {
			return nil, err
		}
	}
	req, err := http.NewRequestWithContext(ctx, q.method, c.opts.URL+q.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if !q.notAfter.IsZero() {
		fence.Set(req, body, q.notAfter, c.opts.Now)
	}
	req.SetBasicAuth(*c.secret.Load(), "")
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", q.key)
	}
	return req, nil
}
