// Package provider calls the providers of points and coupons over HTTP. PROVIDER.md of this service
// describes the API that a provider must offer.
package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"

	"urr.guru/pkg/config"
	"urr.guru/services/reward/internal/payout"
)

// maxAnswer is the most bytes that are read of a provider's answer.
const maxAnswer = 64 << 10

// The circuit breaker opens when at least minFailures calls, and at least half of all, failed
// within the last window, counted in buckets. After openFor it lets one call through.
const (
	window      = time.Minute
	bucket      = 5 * time.Second
	openFor     = 5 * time.Second
	minFailures = 10
)

// Client is a payout.Provider over HTTP.
type Client struct {
	base    string
	http    *http.Client
	breaker *gobreaker.TwoStepCircuitBreaker[any]
	limit   *rate.Limiter
	token   atomic.Pointer[config.Secret]
}

var _ payout.Provider = (*Client)(nil)

// Options of a Client.
type Options struct {
	Rate    float64         // calls per second; 0: no limit
	Token   config.Secret   // sent with each call as a bearer token; empty: none
	Circuit func(open bool) // called when the circuit opens or closes; may be nil
	OpenFor time.Duration   // how long the circuit stays open, 5 s unless a test sets it
}

// New makes a client of the provider at base, its URL.
func New(base string, opts Options) *Client {
	limit := rate.NewLimiter(rate.Inf, 0)
	if opts.Rate > 0 {
		limit = rate.NewLimiter(rate.Limit(opts.Rate), max(1, int(opts.Rate)))
	}
	if opts.Circuit == nil {
		opts.Circuit = func(bool) {}
	}
	c := &Client{
		base:  strings.TrimSuffix(base, "/"),
		limit: limit,
		// No timeout here: the context of every call has a deadline.
		http: &http.Client{
			Transport: &http.Transport{
				DialContext:         (&net.Dialer{Timeout: 2 * time.Second}).DialContext,
				MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute,
			},
			// A redirect would send a payment, or the token, to an address that nobody configured.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		breaker: gobreaker.NewTwoStepCircuitBreaker[any](gobreaker.Settings{
			MaxRequests: 1, Interval: window, BucketPeriod: bucket, Timeout: cmp.Or(opts.OpenFor, openFor),
			ReadyToTrip: func(n gobreaker.Counts) bool {
				return n.TotalFailures >= minFailures && n.TotalFailures*2 >= n.Requests
			},
			// A half-open circuit admits one call at a time, so it counts as open.
			OnStateChange: func(_ string, _, to gobreaker.State) { opts.Circuit(to != gobreaker.StateClosed) },
		}),
	}
	opts.Circuit(false)
	c.Rekey(opts.Token)
	return c
}

// Rekey replaces the token; calls that have begun still use the old one.
func (c *Client) Rekey(token config.Secret) { c.token.Store(&token) }

// Close closes idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

func (c *Client) CallsAllowed() int {
	switch c.breaker.State() {
	case gobreaker.StateOpen:
		return 0
	case gobreaker.StateHalfOpen:
		trials := 1 - min(1, int(c.breaker.Counts().Requests)) // none while the trial call is under way
		return min(trials, c.callsWithinRate())
	default:
		return c.callsWithinRate()
	}
}

func (c *Client) callsWithinRate() int {
	if c.limit.Limit() == rate.Inf {
		return math.MaxInt
	}
	return int(c.limit.Tokens())
}

func (c *Client) Pay(ctx context.Context, a payout.Allocation) payout.CallResult {
	// The limiter comes first, so that a half-open circuit never allows a trial call that is not sent.
	if !c.limit.Allow() {
		return payout.CallResult{Outcome: payout.NotSent, Message: "the rate is used up"}
	}
	done, err := c.breaker.Allow()
	if err != nil {
		return payout.CallResult{Outcome: payout.NotSent, Message: "the circuit is open"}
	}
	r := c.sendPayment(ctx, a)
	done(failureOf(r))
	return r
}

// failureOf returns the error that the circuit breaker counts: a call that failed. It returns nil
// if the provider has answered about the payout, even if it refused to pay.
func failureOf(r payout.CallResult) error {
	switch r.Outcome {
	case payout.Unknown, payout.Busy, payout.NotSent:
		return errors.New(r.Message)
	default:
		return nil
	}
}

func (c *Client) sendPayment(ctx context.Context, a payout.Allocation) payout.CallResult {
	status, got, err := c.call(ctx, http.MethodPost, "/v1/payouts", map[string]any{
		"key": a.KeyToSend(), "memberId": a.MemberID, "kind": a.Kind, "value": a.Value,
	})
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return payout.CallResult{Outcome: payout.NotSent, Message: err.Error()}
	case err != nil:
		return payout.CallResult{Outcome: payout.Unknown, Message: err.Error()}
	}
	r := payout.CallResult{Message: fmt.Sprintf("status %d: %s", status, got.Error)}
	switch status {
	case http.StatusOK:
		return paidResult(got, a.KeyToSend())
	case http.StatusUnprocessableEntity, http.StatusConflict:
		r.Outcome = payout.Refused
	case http.StatusBadRequest, http.StatusGone:
		r.Outcome = payout.RefusedForGood
	case http.StatusTooManyRequests, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		r.Outcome = payout.NotSent // the provider refuses every call, and has paid nothing
	case http.StatusServiceUnavailable:
		r.Outcome = payout.Busy
	default:
		r.Outcome = payout.Unknown
	}
	return r
}

func (c *Client) Lookup(ctx context.Context, key string) payout.CallResult {
	done, err := c.breaker.Allow()
	if err != nil {
		return payout.CallResult{Outcome: payout.Unknown, Message: "the circuit is open"}
	}
	r := c.lookup(ctx, key)
	done(failureOf(r))
	return r
}

func (c *Client) lookup(ctx context.Context, key string) payout.CallResult {
	status, got, err := c.call(ctx, http.MethodGet, "/v1/payouts/"+url.PathEscape(key), nil)
	switch {
	case err != nil:
		return payout.CallResult{Outcome: payout.Unknown, Message: err.Error()}
	case status == http.StatusOK:
		return paidResult(got, key)
	case status == http.StatusNotFound && got.Key == key:
		return payout.CallResult{Outcome: payout.Absent, Message: "the provider has no payout of this key"}
	case status == http.StatusNotFound:
		// A proxy, or the server at a wrong URL, answers so too, and would make a paid reward look
		// unpaid.
		return payout.CallResult{Outcome: payout.Unknown, Message: "look up: status 404 without the key, not from the provider"}
	default:
		return payout.CallResult{Outcome: payout.Unknown, Message: fmt.Sprintf("look up: status %d", status)}
	}
}

func (c *Client) Void(ctx context.Context, key string) payout.CallResult {
	status, got, err := c.call(ctx, http.MethodPost, "/v1/payouts/"+url.PathEscape(key)+"/void", map[string]any{})
	switch {
	case err != nil:
		return payout.CallResult{Outcome: payout.Unknown, Message: "void: " + err.Error()}
	case status == http.StatusNoContent:
		return payout.CallResult{Outcome: payout.Voided, Message: "the key was voided unpaid"}
	case status == http.StatusConflict:
		return paidResult(got, key)
	case slices.Contains(noVoids, status):
		return payout.CallResult{Outcome: payout.Absent, Message: "the provider has no voids"}
	default:
		return payout.CallResult{Outcome: payout.Unknown, Message: fmt.Sprintf("void: status %d", status)}
	}
}

// noVoids are the HTTP statuses of a provider that cannot void keys.
var noVoids = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented} //nolint:gochecknoglobals // a constant

// paidResult returns Paid if the answer has the key and a transaction id, and otherwise Unknown:
// a cache or a faulty adapter may answer about another payment.
func paidResult(got answer, key string) payout.CallResult {
	switch {
	case got.Key != key:
		return payout.CallResult{Outcome: payout.Unknown, Message: "the answer is not about the key that was sent"}
	case got.TransactionID == "":
		return payout.CallResult{Outcome: payout.Unknown, Message: "the answer has no transaction id"}
	default:
		return payout.CallResult{Outcome: payout.Paid, TransactionID: got.TransactionID}
	}
}

// answer is the JSON body of all answers of a provider.
type answer struct {
	// Key must be present in an answer that says whether the provider has a payout of this key.
	Key           string `json:"key"`
	TransactionID string `json:"transactionId"`
	Error         string `json:"error"`
}

// call sends one request and reads the answer. An HTTP error status is not an error of call.
func (c *Client) call(ctx context.Context, method, path string, body any) (status int, got answer, err error) {
	ctx, span := otel.Tracer("urr.guru/services/reward/provider").Start(ctx, method+" reward provider", trace.WithSpanKind(trace.SpanKindClient))
	defer span.End()
	var payload io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return 0, answer{}, fmt.Errorf("provider request: %w", err)
		}
		payload = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, payload)
	if err != nil {
		return 0, answer{}, fmt.Errorf("provider request: %w", err)
	}
	req.Header.Set("Content-Type", "application/json")
	if token := c.token.Load().Reveal(); token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	// net/http repeats a request when a kept-alive connection turns out to be closed, but never a POST.
	resp, err := c.http.Do(req)
	if err != nil {
		span.RecordError(err)
		return 0, answer{}, fmt.Errorf("provider: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return 0, answer{}, fmt.Errorf("provider answer: %w", err)
	}
	// An answer with an error status may have a body that is not JSON; its status is enough.
	if err := json.Unmarshal(b, &got); err != nil && len(b) > 0 && resp.StatusCode < http.StatusBadRequest {
		return 0, answer{}, fmt.Errorf("provider answer: %w", err)
	}
	return resp.StatusCode, got, nil
}
