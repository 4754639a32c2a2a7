package toss

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"urr.guru/services/payment/internal/payment"
)

// object is a payment at Toss, with only the fields that this client reads.
type object struct {
	PaymentKey    string   `json:"paymentKey"`
	OrderID       string   `json:"orderId"`
	Status        string   `json:"status"`
	Currency      string   `json:"currency"`
	TotalAmount   int64    `json:"totalAmount"`
	BalanceAmount int64    `json:"balanceAmount"`
	Cancels       []cancel `json:"cancels"`
	Failure       *struct {
		Code string `json:"code"`
	} `json:"failure"`
}

// captured reports whether the payment was confirmed, even if it was refunded since.
func (o object) captured() bool {
	return o.Status == "DONE" || o.Status == "CANCELED" || o.Status == "PARTIAL_CANCELED"
}

// apiError is the body of an error answer. The code counts, never the HTTP status.
type apiError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func (e *apiError) Error() string { return "toss answers " + e.Code + ": " + e.Message }

// codeOf returns the code of an *apiError; empty for another error.
func codeOf(err error) string {
	if refusal, ok := errors.AsType[*apiError](err); ok {
		return refusal.Code
	}
	return ""
}

// refusesCard reports whether the code of a confirmation means that this payment was not charged
// and cannot be charged any more. For an unknown code it is false.
func refusesCard(code string) bool {
	return strings.HasPrefix(code, "REJECT_") || strings.HasPrefix(code, "EXCEED_MAX_") || slices.Contains([]string{
		"FDS_ERROR", "INVALID_PASSWORD", "INVALID_STOPPED_CARD", "INVALID_CARD_EXPIRATION", "INVALID_REJECT_CARD",
		"INVALID_CARD_LOST_OR_STOLEN", "BELOW_MINIMUM_AMOUNT",
		"NOT_FOUND_PAYMENT_SESSION", // the time to confirm is over
	}, code)
}

// refusesKey reports whether a code means that Toss does not accept the secret key at all.
func refusesKey(code string) bool {
	return slices.Contains([]string{"UNAUTHORIZED_KEY", "INVALID_API_KEY", "INCORRECT_BASIC_AUTH_FORMAT"}, code)
}

// isTrouble reports whether a code means that Toss, or a bank behind it, has a problem that
// concerns more than this payment.
func isTrouble(code string) bool {
	return strings.HasPrefix(code, "FAILED_") || strings.HasPrefix(code, "UNKNOWN_") || strings.HasPrefix(code, "FORBIDDEN_") ||
		slices.Contains([]string{"PROVIDER_ERROR", "CARD_PROCESSING_ERROR", "COMMON_ERROR"}, code)
}

// Charge confirms the payment that the buyer has authorised. Its idempotency key is always the
// same: Toss warns against repeating a confirmation under another key.
func (c *Client) Charge(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	var got object
	err := c.call(ctx, request{
		method: http.MethodPost, path: "/v1/payments/confirm", key: p.ID.String(),
		body: map[string]any{"paymentKey": p.PaymentKey, "orderId": p.OrderID, "amount": p.Amount},
	}, &got)
	code := codeOf(err)
	var op *net.OpError
	switch {
	case err == nil:
		return c.outcome(ctx, p, got)
	case errors.As(err, &op) && op.Op == "dial":
		return payment.Outcome{}, errors.Join(payment.ErrNotSent, err)
	case refusesCard(code):
		return payment.Outcome{State: payment.Refused, DeclineCode: code}, nil
	case refusesKey(code):
		c.opts.Log.ErrorContext(ctx, "toss does not accept the secret key", "code", code)
		return payment.Outcome{}, errors.Join(payment.ErrNotAdmitted, err)
	case code != "" && !isTrouble(code):
		return payment.Outcome{}, errors.Join(payment.ErrChargeRejected, err)
	default:
		return payment.Outcome{}, err
	}
}

// Ask looks the payment up by its order, or by the key with which it was charged. It is not
// documented whether Toss returns a payment that was never confirmed, so it may be Absent.
func (c *Client) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	got, err := c.find(ctx, p)
	if code := codeOf(err); code == "NOT_FOUND_PAYMENT" || code == "NOT_FOUND" {
		return payment.Outcome{State: payment.Absent}, nil
	}
	if err != nil {
		return payment.Outcome{}, err
	}
	out, err := c.outcome(ctx, p, got)
	if err == nil && out.State != payment.Captured && p.PaymentKey != "" && got.PaymentKey != p.PaymentKey {
		return payment.Outcome{State: payment.Absent}, nil // opened in another tab, so not the charged payment
	}
	return out, err
}

// Cancel only looks the payment up, since a cancellation at Toss is a refund. An authorisation
// cannot be cancelled: it expires by itself.
func (c *Client) Cancel(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	out, err := c.Ask(ctx, p)
	switch out.State {
	case payment.Captured:
	case payment.Void, payment.Refused:
		out.State = payment.Void
	default:
		out.State = payment.NotPossible
	}
	return out, err
}

// errOrder is returned if Toss answers with a payment of another order.
var errOrder = errors.New("toss answers with another order")

// find looks a payment up: by its key if it was charged, otherwise by its order. A buyer may pay an
// order twice, and the look-up by order returns only one of the payments.
func (c *Client) find(ctx context.Context, p payment.Payment) (got object, err error) {
	path := "/v1/payments/orders/" + url.PathEscape(p.OrderID)
	if p.ChargeID != "" {
		path = "/v1/payments/" + url.PathEscape(p.ChargeID)
	}
	err = c.call(ctx, request{method: http.MethodGet, path: path}, &got)
	if err == nil && got.OrderID != p.OrderID {
		err = errors.Join(payment.ErrOtherCharge, errOrder)
	}
	return got, err
}

// outcome returns the outcome of the payment p, of which Toss has got.
func (c *Client) outcome(ctx context.Context, p payment.Payment, got object) (payment.Outcome, error) {
	out := payment.Outcome{ChargeID: got.PaymentKey}
	switch {
	case got.OrderID != p.OrderID:
		return payment.Outcome{}, errors.Join(payment.ErrOtherCharge, errOrder)
	case got.captured() && got.Currency != p.Currency:
		return payment.Outcome{}, fmt.Errorf("%w: order %s was charged in %q", payment.ErrOtherCharge, p.OrderID, got.Currency)
	case got.captured():
		out.State, out.Amount, out.Refunded = payment.Captured, got.TotalAmount, got.TotalAmount-got.BalanceAmount
	case got.Status == "READY":
		out.State = payment.Waiting
	case got.Status == "IN_PROGRESS":
		out.State, out.Key = payment.Authorized, got.PaymentKey
	case got.Status == "ABORTED":
		out.State = payment.Refused
		if got.Failure != nil {
			out.DeclineCode = got.Failure.Code
		}
	case got.Status == "EXPIRED":
		out.State = payment.Void
	case got.Status == "WAITING_FOR_DEPOSIT":
		c.opts.Log.ErrorContext(ctx, "a payment waits for a deposit: virtual accounts must be off at Toss", "order_id", p.OrderID)
		out.State = payment.Pending
	default:
		return payment.Outcome{}, fmt.Errorf("payment has the unknown status %q", got.Status)
	}
	return out, nil
}
