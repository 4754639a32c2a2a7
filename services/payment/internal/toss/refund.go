package toss

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"urr.guru/services/payment/internal/payment"
)

// cancel is a cancellation at Toss, by which money goes back.
type cancel struct {
	TransactionKey string `json:"transactionKey"`
	CancelAmount   int64  `json:"cancelAmount"`
	// CancelReason begins with our refund's id. Other reasons come from people at Toss.
	CancelReason string `json:"cancelReason"`
	CancelStatus string `json:"cancelStatus"`
}

// idLength is the length of a refund's id in a reason.
const idLength = 36

// refundID returns the id of the refund that the cancellation made; zero: a person made it.
func (x cancel) refundID() uuid.UUID {
	if len(x.CancelReason) < idLength {
		return uuid.Nil
	}
	id, err := uuid.Parse(x.CancelReason[:idLength])
	if err != nil {
		return uuid.Nil
	}
	return id
}

// state returns the state of the cancellation. It is done at once, except abroad for some methods.
func (x cancel) state() payment.ProviderState {
	switch x.CancelStatus {
	case "DONE":
		return payment.ProviderDone
	case "ABORTED":
		return payment.ProviderFailed
	default:
		return payment.ProviderAccepted
	}
}

// report returns the refunds of the payment with paymentKey. It fails for another payment, which
// says nothing about ours, and if the refunds do not add up to the balance that Toss shows.
func (o object) report(paymentKey string) (payment.RefundReport, error) {
	if !o.captured() || o.PaymentKey != paymentKey {
		return payment.RefundReport{}, fmt.Errorf("toss answers with payment %s of order %s, which is %s", o.PaymentKey, o.OrderID, o.Status)
	}
	report := payment.RefundReport{Captured: o.TotalAmount}
	for _, x := range o.Cancels {
		report.Refunds = append(report.Refunds, payment.ProviderRefund{
			ID: x.TransactionKey, RefundID: x.refundID(), Amount: x.CancelAmount, State: x.state(),
		})
	}
	if left := report.Left(); left != o.BalanceAmount {
		return payment.RefundReport{}, fmt.Errorf("of order %s %d is left, and toss says %d", o.OrderID, left, o.BalanceAmount)
	}
	return report, nil
}

// Refund cancels a part of a payment. The reason begins with the refund's id, to find it again.
func (c *Client) Refund(ctx context.Context, r payment.RefundCall) (payment.RefundAnswer, error) {
	var got object
	charged := cmp.Or(r.ChargeID, r.PaymentKey)
	err := c.call(ctx, request{
		method: http.MethodPost, path: "/v1/payments/" + url.PathEscape(charged) + "/cancel", key: r.Key, notAfter: r.NotAfter,
		body: map[string]any{"cancelReason": r.RefundID.String() + " refund of the shop", "cancelAmount": r.Amount},
	}, &got)
	if err != nil {
		return refusedRefund(err)
	}
	report, err := got.report(charged)
	if err != nil {
		return payment.RefundAnswer{}, err
	}
	for _, x := range slices.Backward(report.Refunds) {
		if x.RefundID != r.RefundID || x.Amount != r.Amount {
			continue
		}
		if x.State == payment.ProviderFailed {
			return payment.RefundAnswer{State: payment.ProviderRefused, ID: x.ID, Code: "ABORTED"}, nil
		}
		return payment.RefundAnswer{State: x.State, ID: x.ID}, nil
	}
	return payment.RefundAnswer{}, fmt.Errorf("toss answers without the refund %s", r.RefundID)
}

// refusedRefund returns the answer to a code that refuses. Toss keeps any other code under the
// call's key, whether the refund was made or not, unless it says that nothing was decided.
func refusedRefund(err error) (payment.RefundAnswer, error) {
	switch code := codeOf(err); code {
	case "ALREADY_CANCELED_PAYMENT", "NOT_MATCHES_REFUNDABLE_AMOUNT", "NOT_CANCELABLE_AMOUNT":
		return payment.RefundAnswer{State: payment.ProviderTooMuch, Code: code}, nil
	case "NOT_CANCELABLE_PAYMENT", "EXCEED_MAX_REFUND_DUE", "NOT_ALLOWED_PARTIAL_REFUND":
		return payment.RefundAnswer{State: payment.ProviderRefused, Code: code}, nil
	case "", "IDEMPOTENT_REQUEST_PROCESSING":
		return payment.RefundAnswer{}, err
	default:
		if refusesKey(code) {
			return payment.RefundAnswer{}, err
		}
		return payment.RefundAnswer{}, errors.Join(payment.ErrKeySpent, err)
	}
}

// AskRefunds looks up the cancellations of a payment. Ours are found by the start of their reasons.
func (c *Client) AskRefunds(ctx context.Context, p payment.Payment) (payment.RefundReport, error) {
	p.ChargeID = cmp.Or(p.ChargeID, p.PaymentKey)
	got, err := c.find(ctx, p)
	if err != nil {
		return payment.RefundReport{}, err
	}
	return got.report(p.ChargeID)
}
