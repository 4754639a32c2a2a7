package crowd

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"urr.guru/pkg/loop"
)

// The final statuses of a payment.
const (
	confirmed = "CONFIRMED"
	declined  = "DECLINED"
	expired   = "EXPIRED"
)

// pagePercent is the percentage of buyers who pay on the provider's page, if there is one. The
// other constants are percentages of these buyers.
const (
	pagePercent    = 60
	neverPercent   = 8 // pay, and never come back to the shop
	slowPercent    = 3 // pay, and the provider answers the shop late
	givesUpPercent = 8 // first cancel the payment and open another one
)

// payable is what a payment is for: a reservation, a transfer or a membership.
type payable struct{ kind, id string }

// prepare opens a payment. It repeats the request until the provider's page is open, as the
// checkout does.
func (v *visitor) prepare(ctx context.Context, what payable) (p preparedPayment, err error) {
	body := map[string]any{"paymentType": what.kind, "referenceId": what.id}
	for range maxAttempts {
		p = preparedPayment{}
		err = v.post(ctx, StepPrepare, preparePath, body, &p)
		if err != nil || p.Status != "PREPARED" || p.Page != nil || p.Amount == 0 {
			return p, err
		}
		if !loop.Sleep(ctx, paymentPoll) {
			return p, ctx.Err()
		}
	}
	return p, fmt.Errorf("the page of payment %s does not open", p.PaymentID)
}

// payOnPage opens the provider's page, makes a choice there, and comes back unless the choice is to
// stay. Some visitors first cancel the payment and open another one.
func (v *visitor) payOnPage(ctx context.Context, what payable, p preparedPayment, paymentKey string) (status string, err error) {
	choice := v.choice(paymentKey)
	if choice == "approve" && v.behaviour == Buys && v.rng.IntN(100) < givesUpPercent {
		if p, err = v.changeMind(ctx, what, p); err != nil || p.Page == nil {
			return expired, err
		}
	}
	ans, err := v.atPage(ctx, http.MethodGet, p.Page.URL, "")
	if err == nil && ans.OK() {
		ans, err = v.atPage(ctx, http.MethodPost, p.Page.URL, choice)
	}
	switch {
	case err != nil:
		return "", err
	case ans.Status == http.StatusGone: // the payment has expired, or a second tab has paid it
	case choice == "stay" && ans.OK():
	case ans.Status == http.StatusSeeOther:
		err = v.comeBack(ctx, ans.Header.Get("Location"))
	default:
		err = newRefusalError(StepPage, ans)
	}
	if err != nil {
		return "", err
	}
	return v.awaitPayment(ctx, p.PaymentID)
}

// choice returns the button that the visitor presses on the provider's page.
func (v *visitor) choice(paymentKey string) string {
	n := v.rng.IntN(100)
	switch {
	case strings.HasPrefix(paymentKey, "decline-"):
		return "decline"
	case n < neverPercent:
		return "stay"
	case n < neverPercent+slowPercent:
		return "slow"
	default:
		return "approve"
	}
}

// changeMind cancels a payment before anything is paid, and opens another one.
func (v *visitor) changeMind(ctx context.Context, what payable, p preparedPayment) (preparedPayment, error) {
	var got struct {
		Status string `json:"status"`
	}
	if err := v.post(ctx, StepCancel, "/api/v1/payments/"+p.PaymentID+"/cancel", map[string]any{}, &got); err != nil {
		return p, err
	}
	if got.Status != expired {
		return p, fmt.Errorf("a payment that was given up is %s", got.Status)
	}
	return v.prepare(ctx, what)
}

// atPage requests the provider's page, and submits the choice if it is not empty. It repeats a
// request that gets no answer. That is safe, since the page accepts only one choice.
func (v *visitor) atPage(ctx context.Context, method, page, choice string) (ans *Answer, err error) {
	for range maxAttempts {
		if ans, err = v.session.Submit(ctx, StepPage, method, page, url.Values{"choice": {choice}}); err == nil || !loop.Sleep(ctx, jitter(v.rng, paymentPoll)) {
			break
		}
	}
	return ans, err
}

// comeBack follows the provider's redirect to the shop.
func (v *visitor) comeBack(ctx context.Context, location string) error {
	target, err := url.Parse(location)
	if err != nil {
		return fmt.Errorf("the provider's redirect: %w", err)
	}
	ans, err := v.callWithRetries(ctx, StepReturn, http.MethodGet, target.RequestURI(), nil, nil)
	if err == nil && ans.Status != http.StatusSeeOther {
		err = newRefusalError(StepReturn, ans)
	}
	return err
}

// awaitPayment polls a payment until it has ended.
func (v *visitor) awaitPayment(ctx context.Context, paymentID string) (string, error) {
	for {
		var p struct {
			Status string `json:"status"`
		}
		if err := v.get(ctx, StepPayment, "/api/v1/payments/"+paymentID, &p); err != nil {
			return "", err
		}
		switch p.Status {
		case "PREPARED", "OPEN", "CONFIRMING", "UNKNOWN", "PENDING":
			if !loop.Sleep(ctx, paymentPoll) {
				return "", ctx.Err()
			}
		default:
			return p.Status, nil
		}
	}
}
