package sandbox

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"urr.guru/services/payment/internal/payment"
)

// Capabilities contains a page time only if browsers can reach the sandbox's page.
func (c *Client) Capabilities() payment.Capabilities {
	caps := payment.Capabilities{
		Void: true, Finality: c.opts.VoidAfter, ChargeTime: c.opts.Timeout, CallTime: c.opts.Timeout, KeyLife: c.opts.KeyLife, InFlight: inFlight,
	}
	if c.opts.PublicURL != "" {
		caps.PageTime = c.opts.PageTime
	}
	return caps
}

// Open makes a session at the sandbox, with a page that makes the payment key. If browsers cannot
// reach the sandbox, the payer chooses the key on a page of the shop.
func (c *Client) Open(ctx context.Context, p payment.Payment) (payment.Page, error) {
	if c.opts.PublicURL == "" {
		return payment.Page{Params: map[string]string{"paymentKeys": "ok- decline- timeout- lost- slow- late-"}}, nil
	}
	returnURL := c.opts.ReturnURL + "?" + url.Values{"orderId": {p.OrderID}, "token": {p.Token}}.Encode()
	var s session
	code, err := c.send(ctx, http.MethodPost, "/v1/sessions", map[string]any{
		"orderId": p.OrderID, "amount": p.Amount, "currency": p.Currency, "returnUrl": returnURL,
		"seconds": int64(c.opts.PageTime.Seconds()), "idempotencyKey": p.ID.String() + ":open",
	}, time.Time{}, &s)
	switch {
	case err != nil:
		return payment.Page{}, err
	case code != http.StatusOK || s.SessionID == "":
		return payment.Page{}, fmt.Errorf("open a session: status %d", code)
	}
	return payment.Page{URL: c.opts.PublicURL + "/pay/" + url.PathEscape(s.SessionID), Ref: s.SessionID}, nil
}

// session is the sandbox's answer about a session.
type session struct {
	SessionID  string `json:"sessionId"`
	State      string `json:"state"`
	PaymentKey string `json:"paymentKey"`
}

// askPage asks what the payer has done on the page. If known is false, ask for the charge instead.
func (c *Client) askPage(ctx context.Context, ref string) (out payment.Outcome, known bool, err error) {
	var s session
	code, err := c.send(ctx, http.MethodGet, "/v1/sessions/"+url.PathEscape(ref), nil, time.Time{}, &s)
	switch {
	case err != nil:
		return out, false, err
	case code != http.StatusOK && code != http.StatusNotFound:
		return out, false, fmt.Errorf("look up session: status %d", code)
	case s.State == "OPEN":
		return payment.Outcome{State: payment.Waiting}, true, nil
	case s.State == "USED":
		return payment.Outcome{State: payment.Authorized, Key: s.PaymentKey}, true, nil
	default: // expired, closed or unknown
		return out, false, nil
	}
}

// errNoOrder is returned if the address to which the payer comes back contains no order id.
var errNoOrder = errors.New("the address names no order")

func (c *Client) Return(params map[string]string) (payment.Auth, error) {
	if params["orderId"] == "" {
		return payment.Auth{}, errNoOrder
	}
	return payment.Auth{OrderID: params["orderId"], Token: params["token"], Key: params["paymentKey"]}, nil
}
