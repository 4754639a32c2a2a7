package sandbox

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/google/uuid"

	"urr.guru/services/payment/internal/payment"
)

// refund is a refund as the sandbox returns it.
type refund struct {
	RefundID  string `json:"refundId"`
	Reference string `json:"reference"`
	Amount    int64  `json:"amount"`
	Status    string `json:"status"`
	// Code is the reason of a refusal as a constant, Error as a sentence.
	Code  string `json:"code"`
	Error string `json:"error"`
}

func (c *Client) Refund(ctx context.Context, r payment.RefundCall) (payment.RefundAnswer, error) {
	body := map[string]any{"idempotencyKey": r.Key, "amount": r.Amount, "reference": r.RefundID.String()}
	var got refund
	code, err := c.send(ctx, http.MethodPost, "/v1/charges/"+url.PathEscape(r.OrderID)+"/refunds", body, r.NotAfter, &got)
	switch {
	case err != nil:
		return payment.RefundAnswer{}, err
	case code == http.StatusOK:
		state, err := got.state()
		if state == payment.ProviderFailed { // an earlier call made it, and it has failed since
			return payment.RefundAnswer{State: payment.ProviderRefused, ID: got.RefundID, Code: "FAILED"}, err
		}
		return payment.RefundAnswer{State: state, ID: got.RefundID}, err
	case code == http.StatusUnprocessableEntity && got.Code == "TOO_MUCH":
		return payment.RefundAnswer{State: payment.ProviderTooMuch, Code: got.Code}, nil
	case code == http.StatusUnprocessableEntity && got.Code != "":
		return payment.RefundAnswer{}, fmt.Errorf("refund: %w", &payment.KeptError{Code: got.Code})
	case code == http.StatusConflict, code == http.StatusGone:
		return payment.RefundAnswer{State: payment.ProviderRefused, Code: got.Error}, nil
	default:
		return payment.RefundAnswer{}, fmt.Errorf("refund: status %d: %s", code, got.Error)
	}
}

func (c *Client) AskRefunds(ctx context.Context, p payment.Payment) (payment.RefundReport, error) {
	var got struct {
		Captured int64    `json:"captured"`
		Refunds  []refund `json:"refunds"`
	}
	code, err := c.send(ctx, http.MethodGet, "/v1/charges/"+url.PathEscape(p.OrderID)+"/refunds", nil, time.Time{}, &got)
	if err != nil {
		return payment.RefundReport{}, err
	}
	if code != http.StatusOK {
		return payment.RefundReport{}, fmt.Errorf("list refunds: status %d", code)
	}
	report := payment.RefundReport{Captured: got.Captured}
	for _, r := range got.Refunds {
		state, err := r.state()
		if err != nil {
			return payment.RefundReport{}, err
		}
		ours, _ := uuid.Parse(r.Reference) // other references are not ids of this service
		report.Refunds = append(report.Refunds, payment.ProviderRefund{ID: r.RefundID, RefundID: ours, Amount: r.Amount, State: state})
	}
	return report, nil
}

func (r refund) state() (payment.ProviderState, error) {
	switch r.Status {
	case "PENDING":
		return payment.ProviderAccepted, nil
	case "DONE":
		return payment.ProviderDone, nil
	case "FAILED":
		return payment.ProviderFailed, nil
	default:
		return 0, fmt.Errorf("refund has the unknown status %q", r.Status)
	}
}
