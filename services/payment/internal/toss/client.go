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
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

// Name is the provider's name in settings and stored payments.
const Name = "toss"

// currencies has the only accepted currency: Toss uses fractions in amounts of others. A card pays 100
// at least, an account 200 (docs.tosspayments.com/reference/error-codes, BELOW_MINIMUM_AMOUNT).
var currencies = map[string]payment.Limits{"KRW": {Smallest: 100, Step: 1}} //nolint:gochecknoglobals // a constant

// RefundEndpoint is the endpoint of refunds.
const RefundEndpoint = "POST /v1/payments/{key}/cancel"

// endpoints are the requests of a Client.
var endpoints = []string{ //nolint:gochecknoglobals // a constant
	"POST /v1/payments/confirm", "GET /v1/payments/orders/{order}", "GET /v1/payments/{key}", RefundEndpoint, "GET /v1/transactions",
}

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
	maxCode         = 100       // characters of the code of a failure
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
	// Budget limits the calls; nil: there is no limit.
	Budget *budget.Budget
	// Now and Transport are set by tests only; nil: time.Now, and connections to Toss.
	Now       func() time.Time
	Transport http.RoundTripper
}

var _ payment.Provider = (*Client)(nil)

// NewClient returns a Client that sends the secret key with every call.
func NewClient(secretKey config.Secret, opts Options) *Client {
	opts.URL, opts.PageTime = strings.TrimSuffix(cmp.Or(opts.URL, vendorURL), "/"), cmp.Or(opts.PageTime, defaultPageTime)
	opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	// Every call has the deadline of its context. Redirects are not followed, so that the key is sent
	// to no other address.
	noRedirect := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	transport := outbound.New(outbound.Options{
		Provider: Name, Endpoints: endpoints, Budget: opts.Budget, MaxAnswer: maxAnswer, Now: opts.Now, Base: opts.Transport,
	})
	c := &Client{opts: opts, http: &http.Client{Transport: transport, CheckRedirect: noRedirect}}
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
		InFlight: inFlight, Currencies: currencies,
	}
}

// Open returns the address of the shop's page, without a call to Toss. The address's fragment
// contains what is paid, and the token that authenticates the buyer on return.
func (c *Client) Open(_ context.Context, p payment.Payment) (payment.Page, error) {
	if _, ok := currencies[p.Currency]; !ok {
		return payment.Page{}, &payment.NotTakenError{Code: p.Currency, Err: fmt.Errorf("toss takes no %s", p.Currency)}
	}
	fragment := url.Values{
		"order": {p.OrderID}, "amount": {strconv.FormatInt(p.Amount, 10)}, "name": {p.Description}, "token": {p.Token},
	}
	return payment.Page{URL: c.opts.PageURL + "#" + fragment.Encode()}, nil
}

// errReturn is returned for parameters with which the shop's page sends nobody back.
var errReturn = errors.New("the address is none that our page has made")

func (c *Client) Return(params map[string]string) (payment.Auth, error) { return DecodeReturn(params) }

// DecodeReturn decodes the parameters with which buyers come back. After a success Toss has added
// the payment key, the order and the amount. After a failure it adds no key but a code, and if the
// buyer gave up, no order either.
func DecodeReturn(params map[string]string) (payment.Auth, error) {
	auth := payment.Auth{OrderID: params["order"], Token: params["token"], Key: params["paymentKey"]}
	named, ok := params["orderId"]
	if auth.OrderID == "" || ok && named != auth.OrderID || len(auth.Key) > maxKey {
		return payment.Auth{}, errReturn
	}
	if auth.Key == "" {
		if code := params["code"]; strings.HasPrefix(code, "REJECT_") && len(code) <= maxCode {
			auth.DeclineCode = code
		}
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
	if err := json.Unmarshal(body, &event); err != nil || event.Type != "PAYMENT_STATUS_CHANGED" || event.Data.OrderID == "" {
		return payment.Notice{}, nil //nolint:nilerr // anybody can send this, so it is ignored
	}
	refund := event.Data.Status == "CANCELED" || event.Data.Status == "PARTIAL_CANCELED"
	return payment.Notice{OrderID: event.Data.OrderID, Refund: refund, Unsigned: true}, nil
}

// request is one call. key is its idempotency key. It is not sent after notAfter, unless that is
// zero.
type request struct {
	method, path, key string
	body              any
	notAfter          time.Time
}

// call sends a request and decodes the answer into got. If Toss refuses, the error is an *apiError,
// joined with ErrKeyRefused if Toss does not accept the secret key. After any other error the outcome is
// unknown.
func (c *Client) call(ctx context.Context, q request, got any) error {
	req, err := c.newRequest(ctx, q)
	if err != nil {
		return fmt.Errorf("toss request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("toss: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
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
	if err := json.Unmarshal(body, refusal); err != nil || refusal.Code == "" || resp.StatusCode == http.StatusTooManyRequests {
		return fmt.Errorf("toss answers with status %d, and no code that counts", resp.StatusCode)
	}
	if kindOf(confirmCall, string(refusal.Code)) == notAdmitted {
		return errors.Join(payment.ErrKeyRefused, refusal)
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
	req, err := http.NewRequestWithContext(outbound.SentUntil(ctx, q.notAfter), q.method, c.opts.URL+q.path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.SetBasicAuth(*c.secret.Load(), "")
	if q.body != nil {
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Idempotency-Key", q.key)
	}
	return req, nil
}
