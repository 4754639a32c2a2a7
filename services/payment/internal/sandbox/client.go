// Package sandbox is the client of the sandbox provider, urr.guru/services/payment/sandbox. Only
// development and tests import the provider itself.
package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"urr.guru/pkg/config"
	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

// Name is the provider's name in settings and stored payments.
const Name = "sandbox"

// maxAnswer is the most bytes of an answer that are read.
const maxAnswer = 1 << 20

// Client calls the sandbox provider over HTTP, and verifies its webhooks.
type Client struct {
	base    string
	secrets atomic.Pointer[[]string] // any of them verifies a webhook
	http    *http.Client
	opts    Options
}

// Options are the options of a Client.
type Options struct {
	// Timeout is the time limit of one call; default 8s. VoidAfter is the age from which a charge that
	// the sandbox does not know is voided; until then it may still arrive; default 20s.
	Timeout, VoidAfter time.Duration
	// PublicURL is the sandbox's address for browsers, ReturnURL the address to which its page sends
	// them back. Without them a page of the shop collects the payment key.
	PublicURL, ReturnURL string
	// PageTime is how long the buyer has on the page; default 12min.
	PageTime time.Duration
	// KeyLife is how long the sandbox certainly keeps the key of a refund; default 20h.
	KeyLife time.Duration
	// Now and Transport are set by tests only; nil: time.Now, and connections to the sandbox.
	Now       func() time.Time
	Transport http.RoundTripper
}

// The defaults of Options; the sandbox keeps keys longer than defaultKeyLife, 24 h. inFlight is how
// long after its start a call may take effect: longer than any call's timeout.
const (
	defaultTimeout   = 8 * time.Second
	defaultVoidAfter = 20 * time.Second
	defaultPageTime  = 12 * time.Minute
	defaultKeyLife   = 20 * time.Hour
	inFlight         = time.Minute
)

var _ payment.Provider = (*Client)(nil)

// NewClient returns a Client of the sandbox at the URL base. secrets has the form secret[,secret…];
// any of them verifies a webhook.
func NewClient(base string, secrets config.Secret, opts Options) *Client {
	opts.KeyLife = cmp.Or(opts.KeyLife, defaultKeyLife)
	opts.Timeout, opts.VoidAfter = cmp.Or(opts.Timeout, defaultTimeout), cmp.Or(opts.VoidAfter, defaultVoidAfter)
	opts.PageTime = cmp.Or(opts.PageTime, defaultPageTime)
	// The client has no timeout, since every call has the deadline of its context.
	c := &Client{base: strings.TrimSuffix(base, "/"), opts: opts}
	c.http = &http.Client{Transport: outbound.New(outbound.Options{Provider: Name, MaxAnswer: maxAnswer, Now: opts.Now, Base: opts.Transport})}
	c.Rekey(secrets)
	return c
}

// Rekey replaces the secrets that verify webhooks.
func (c *Client) Rekey(secrets config.Secret) {
	list := strings.Split(secrets.Reveal(), ",")
	c.secrets.Store(&list)
}

func (c *Client) Close() { c.http.CloseIdleConnections() }

// charge is the sandbox's answer about a charge. Each call sets only some of the fields.
type charge struct {
	ChargeID       string `json:"chargeId"`
	Status         string `json:"status"`
	DeclineCode    string `json:"declineCode"`
	Amount         int64  `json:"amount"`
	RefundedAmount int64  `json:"refundedAmount"`
}

func (c *Client) Charge(ctx context.Context, p payment.Payment, _ payment.Outcome) (payment.Outcome, error) {
	code, got, err := c.call(ctx, http.MethodPost, "/v1/charges", map[string]any{
		"paymentKey": p.PaymentKey, "orderId": p.OrderID, "amount": p.Amount, "currency": p.Currency, "idempotencyKey": p.ID.String(),
	})
	var op *net.OpError
	switch {
	case errors.As(err, &op) && op.Op == "dial":
		return payment.Outcome{}, errors.Join(payment.ErrNotSent, err)
	case err != nil:
		return payment.Outcome{}, err
	case code == http.StatusOK:
		return payment.Outcome{State: payment.Captured, ChargeID: got.ChargeID, Amount: cmp.Or(got.Amount, p.Amount)}, nil
	case code == http.StatusAccepted:
		return payment.Outcome{State: payment.Pending, ChargeID: got.ChargeID}, nil
	case code == http.StatusPaymentRequired:
		return payment.Outcome{State: payment.Refused, DeclineCode: got.DeclineCode}, nil
	case rejected(code):
		return payment.Outcome{}, fmt.Errorf("%w: status %d", payment.ErrChargeRejected, code)
	default:
		return payment.Outcome{}, fmt.Errorf("charge: status %d", code)
	}
}

// rejected reports whether a status means that this one request is invalid. Other 4xx statuses
// concern all requests (credentials, address), or the sandbox's load.
func rejected(status int) bool {
	switch status {
	case http.StatusBadRequest, http.StatusConflict, http.StatusUnprocessableEntity:
		return true
	default:
		return false
	}
}

func (c *Client) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	if p.PaymentKey == "" && p.Ref != "" { // nothing was charged yet, so the page is asked
		if out, known, err := c.askPage(ctx, p.Ref); known || err != nil {
			return out, err
		}
	}
	code, got, err := c.call(ctx, http.MethodGet, "/v1/charges/"+url.PathEscape(p.OrderID), nil)
	if err != nil {
		return payment.Outcome{}, err
	}
	switch code {
	case http.StatusOK:
		return outcome(got)
	case http.StatusNotFound:
		return payment.Outcome{State: payment.Absent}, nil
	default:
		return payment.Outcome{}, fmt.Errorf("look up: status %d", code)
	}
}

func outcome(got charge) (payment.Outcome, error) {
	o := payment.Outcome{ChargeID: got.ChargeID, DeclineCode: got.DeclineCode, Amount: got.Amount, Refunded: got.RefundedAmount}
	switch got.Status {
	case "CAPTURED":
		o.State = payment.Captured
	case "DECLINED":
		o.State = payment.Refused
	case "PENDING":
		o.State = payment.Pending
	case "VOIDED":
		o.State = payment.Void
	default:
		return payment.Outcome{}, fmt.Errorf("charge has the unknown status %q", got.Status)
	}
	return o, nil
}

func (c *Client) Cancel(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	body := map[string]any{"idempotencyKey": "void-" + p.OrderID}
	code, _, err := c.call(ctx, http.MethodPost, "/v1/charges/"+url.PathEscape(p.OrderID)+"/void", body)
	if err != nil {
		return payment.Outcome{}, err
	}
	switch code {
	case http.StatusOK:
		return payment.Outcome{State: payment.Void}, nil
	case http.StatusConflict:
		return payment.Outcome{State: payment.Captured}, nil
	default:
		return payment.Outcome{}, fmt.Errorf("void: status %d", code)
	}
}

// call sends one request and decodes the answer, whatever its status.
func (c *Client) call(ctx context.Context, method, path string, body any) (status int, got charge, err error) {
	status, err = c.send(ctx, method, path, body, time.Time{}, &got)
	return status, got, err
}

// send sends one request and decodes the answer into got, whatever its status. The request is not
// sent after notAfter, unless that is zero.
func (c *Client) send(ctx context.Context, method, path string, body any, notAfter time.Time, got any) (status int, err error) {
	req, err := c.request(outbound.SentUntil(ctx, notAfter), method, path, body)
	if err != nil {
		return 0, fmt.Errorf("sandbox request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("sandbox: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, fmt.Errorf("sandbox answer: %w", err)
	}
	// The body of an error may be something other than JSON; its status is enough.
	if err := json.Unmarshal(b, got); err != nil && resp.StatusCode < http.StatusBadRequest {
		return 0, fmt.Errorf("sandbox answer: %w", err)
	}
	return resp.StatusCode, nil
}

func (c *Client) request(ctx context.Context, method, path string, body any) (*http.Request, error) {
	if body == nil {
		return http.NewRequestWithContext(ctx, method, c.base+path, http.NoBody)
	}
	b, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, bytes.NewReader(b))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	return req, nil
}
