package toss

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/google/uuid"

	"urr.guru/services/payment/internal/payment"
)

// cancel is a cancellation at Toss, which gives money back.
type cancel struct {
	TransactionKey string `json:"transactionKey"`
	CancelAmount   int64  `json:"cancelAmount"`
	// CancelReason begins with the refund's id, if this service made it; else a person wrote it.
	CancelReason string `json:"cancelReason"`
	CancelStatus string `json:"cancelStatus"`
}

// idLength is the length of a refund's id in a CancelReason.
const idLength = 36

// refundID returns the refund's id; zero: a person made the cancellation.
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

// state returns the cancellation's state. It is done at once, except for some methods abroad.
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

// report returns the refunds of the payment with paymentKey. It fails if o is another payment, and
// if the refunds do not add up to the balance that Toss returns.
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
	if left := report.RefundableAmount(); left != o.BalanceAmount {
		return payment.RefundReport{}, fmt.Errorf("order %s: %d can be refunded, but toss says %d", o.OrderID, left, o.BalanceAmount)
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

// refusedRefund converts an error of Refund. Unless its code refuses, or means that nothing was
// decided, Toss keeps it under the call's key, whether the refund was made or not.
func refusedRefund(err error) (payment.RefundAnswer, error) {
	code := codeOf(err)
	if code == "" {
		return payment.RefundAnswer{}, err
	}
	switch kindOf(cancelCall, code) {
	case tooMuch:
		return payment.RefundAnswer{State: payment.ProviderTooMuch, Code: code}, nil
	case refused:
		return payment.RefundAnswer{State: payment.ProviderRefused, Code: code}, nil
	case notBegun, notAdmitted:
		return payment.RefundAnswer{}, err
	default:
		return payment.RefundAnswer{}, kept(cancelCall, code)
	}
}

// AskRefunds looks up a payment's cancellations. Their reasons show which are this service's.
func (c *Client) AskRefunds(ctx context.Context, p payment.Payment) (payment.RefundReport, error) {
	p.ChargeID = cmp.Or(p.ChargeID, p.PaymentKey)
	got, err := c.find(ctx, p)
	if err != nil {
		return payment.RefundReport{}, err
	}
	return got.report(p.ChargeID)
}
