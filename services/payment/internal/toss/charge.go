package toss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

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
	// PartialCancelable is absent or true if a part can be cancelled.
	PartialCancelable *bool `json:"isPartialCancelable"`
	Failure           *struct {
		Code errorCode `json:"code"`
	} `json:"failure"`
	Receipt *struct {
		URL string `json:"url"`
	} `json:"receipt"`
}

// captured reports whether the payment was confirmed, even if it was refunded since.
func (o object) captured() bool {
	return o.Status == "DONE" || o.Status == "CANCELED" || o.Status == "PARTIAL_CANCELED"
}

// Charge confirms the payment that the buyer has authorised. Its idempotency key is always the
// same: Toss warns against repeating a confirmation under another key.
func (c *Client) Charge(ctx context.Context, p payment.Payment, _ payment.Outcome) (payment.Outcome, error) {
	var got object
	err := c.call(ctx, request{
		method: http.MethodPost, path: "/v1/payments/confirm", key: p.ID.String(),
		body: map[string]any{"paymentKey": p.PaymentKey, "orderId": p.OrderID, "amount": p.Amount},
	}, &got)
	var op *net.OpError
	switch code := codeOf(err); {
	case err == nil:
		return c.outcome(ctx, p, got)
	case errors.As(err, &op) && op.Op == "dial":
		return payment.Outcome{}, errors.Join(payment.ErrNotSent, err)
	case code == "" || errors.Is(err, payment.ErrKeyRefused):
		return payment.Outcome{}, err
	default:
		return confirmRefused(code)
	}
}

// confirmRefused returns the outcome of a confirmation that Toss has answered with a code.
func confirmRefused(code string) (payment.Outcome, error) {
	switch kindOf(confirmCall, code) {
	case refused:
		return payment.Outcome{State: payment.Refused, DeclineCode: code}, nil
	case notBegun:
		return payment.Outcome{}, fmt.Errorf("%w: toss answers %s", payment.ErrChargeRejected, code)
	case trouble:
		return payment.Outcome{}, kept(confirmCall, code)
	default:
		return payment.Outcome{}, errors.Join(payment.ErrChargeRejected, kept(confirmCall, code))
	}
}

// Ask looks up the payment that is being charged, otherwise one of the order. It is not documented
// whether Toss returns a payment that was never confirmed, so it may be Absent.
func (c *Client) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	got, err := c.find(ctx, p)
	othersKey := errors.Is(err, errOrder) && p.ChargeID == "" && p.Status.Unsettled()
	if othersKey || kindOf(lookUpCall, codeOf(err)) == absent {
		return payment.Outcome{State: payment.Absent}, nil // a buyer may bring back the key of another order
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

// find looks a payment up: by its key while it is being charged and once it is, otherwise by its order.
// A buyer may pay an order twice, and the look-up by order returns only one of the payments.
func (c *Client) find(ctx context.Context, p payment.Payment) (got object, err error) {
	path, key := "/v1/payments/orders/"+url.PathEscape(p.OrderID), p.ChargeID
	if p.Status.Unsettled() {
		key = cmp.Or(key, p.PaymentKey)
	}
	if key != "" {
		path = "/v1/payments/" + url.PathEscape(key)
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
		out.WholeOnly = got.PartialCancelable != nil && !*got.PartialCancelable
		if got.Receipt != nil {
			out.ReceiptURL = payment.ReceiptAt(got.Receipt.URL, "tosspayments.com")
		}
	case got.Status == "READY":
		out.State = payment.Waiting
	case got.Status == "IN_PROGRESS":
		out.State, out.Key = payment.Authorized, got.PaymentKey
	case got.Status == "ABORTED":
		out.State = payment.Refused
		if got.Failure != nil {
			out.DeclineCode = string(got.Failure.Code)
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
