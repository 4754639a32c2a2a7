package stripe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/outbound"
	"urr.guru/services/payment/internal/payment"
)

func (c *Client) Refund(ctx context.Context, r payment.RefundCall) (payment.RefundAnswer, error) {
	amount, err := toStripe(r.Amount, r.Currency)
	if err != nil { // a part that Stripe cannot give back
		return payment.RefundAnswer{State: payment.ProviderRefused, Code: "amount_not_expressible"}, nil //nolint:nilerr // the code says it
	}
	params := &api.RefundCreateParams{
		PaymentIntent: api.String(r.ChargeID), Amount: api.Int64(amount),
		Metadata: map[string]string{orderKey: r.OrderID, refundKey: r.RefundID.String()},
	}
	params.SetIdempotencyKey(r.Key)
	got, err := c.api().V1Refunds.Create(outbound.SentUntil(ctx, r.NotAfter), params)
	if err != nil {
		return refundFailed(err)
	}
	state, err := refundState(got)
	if state == payment.ProviderFailed { // an earlier call made it, and it has failed since
		return payment.RefundAnswer{State: payment.ProviderRefused, ID: got.ID, Code: string(got.FailureReason)}, err
	}
	return payment.RefundAnswer{State: state, ID: got.ID, PendingReason: string(got.PendingReason)}, err
}

// refundFailed converts the error of a refund to an answer. Stripe keeps every error under the key,
// unless it has not begun the call.
func refundFailed(err error) (payment.RefundAnswer, error) {
	var e *api.Error
	if !errors.As(err, &e) || busy(e) || refusesKey(e) {
		return payment.RefundAnswer{}, failed("refund", err)
	}
	switch e.Code {
	case api.ErrorCodeChargeAlreadyRefunded, api.ErrorCodeAmountTooLarge:
		return payment.RefundAnswer{State: payment.ProviderTooMuch, Code: string(e.Code)}, nil
	case api.ErrorCodeChargeDisputed, api.ErrorCodeRefundDisputedPayment, api.ErrorCodeChargeNotRefundable:
		return payment.RefundAnswer{State: payment.ProviderRefused, Code: string(e.Code)}, nil
	case "":
		if e.Type == api.ErrorTypeInvalidRequest && e.Param == "amount" { // more than is left
			return payment.RefundAnswer{State: payment.ProviderTooMuch, Code: "amount"}, nil
		}
	default:
	}
	code := cmp.Or(constant(e.Code), constant(e.Param), constant(e.Type))
	trouble := e.Type == api.ErrorTypeAPI || e.Code == api.ErrorCodeBalanceInsufficient || e.Code == api.ErrorCodeInsufficientFunds
	return payment.RefundAnswer{}, errors.Join(&payment.KeptError{Code: code, Trouble: trouble}, failed("refund", err))
}

func (c *Client) AskRefunds(ctx context.Context, p payment.Payment) (payment.RefundReport, error) {
	find := &api.PaymentIntentRetrieveParams{}
	find.AddExpand("latest_charge")
	pi, err := c.api().V1PaymentIntents.Retrieve(ctx, p.ChargeID, find)
	if err != nil {
		return payment.RefundReport{}, failed("look up an intent", err)
	}
	report := payment.RefundReport{}
	if report.Captured, err = fromStripe(pi.AmountReceived, currencyOf(pi.Currency)); err != nil {
		return payment.RefundReport{}, err
	}
	params := &api.RefundListParams{PaymentIntent: api.String(p.ChargeID)}
	params.Limit = api.Int64(100)
	for r, err := range c.api().V1Refunds.List(ctx, params).All(ctx) {
		if err != nil {
			return payment.RefundReport{}, failed("list refunds", err)
		}
		x, err := providerRefund(r)
		if err != nil {
			return payment.RefundReport{}, err
		}
		report.Refunds = append(report.Refunds, x)
	}
	if pi.LatestCharge != nil && pi.LatestCharge.Disputed { // also after the dispute has ended
		err = c.addDisputes(ctx, pi, &report)
	}
	return report, err
}

// addDisputes adds an intent's disputes to a report. An inquiry (warning_…) takes no money and
// prevents no refund. A lost dispute may be won later, if the payer withdraws it. An unknown status
// counts as an open dispute.
func (c *Client) addDisputes(ctx context.Context, pi *api.PaymentIntent, report *payment.RefundReport) error {
	params := &api.DisputeListParams{PaymentIntent: api.String(pi.ID)}
	params.Limit = api.Int64(pageLength)
	for d, err := range c.api().V1Disputes.List(ctx, params).All(ctx) {
		if err != nil {
			return failed("list disputes", err)
		}
		switch d.Status {
		case api.DisputeStatusPrevented, api.DisputeStatusWarningNeedsResponse, api.DisputeStatusWarningUnderReview,
			api.DisputeStatusWarningClosed:
		case api.DisputeStatusLost, api.DisputeStatusWon:
			state := payment.ProviderDone
			if d.Status == api.DisputeStatusWon {
				state = payment.ProviderFailed
			}
			lost, err := fromStripe(lostBy(d, pi), currencyOf(pi.Currency))
			if err != nil {
				return err
			}
			report.Refunds = append(report.Refunds, payment.ProviderRefund{ID: d.ID, Amount: lost, State: state, Lost: true})
		default:
			report.Disputed = true
			report.EvidenceDue = earliest(report.EvidenceDue, evidenceDue(d))
		}
	}
	return nil
}

// evidenceDue returns until when evidence about a dispute must be there; zero: it is not waited for.
func evidenceDue(d *api.Dispute) time.Time {
	if d.Status != api.DisputeStatusNeedsResponse || d.EvidenceDetails == nil || d.EvidenceDetails.DueBy == 0 {
		return time.Time{}
	}
	return time.Unix(d.EvidenceDetails.DueBy, 0)
}

// earliest returns the earlier of two times. A zero time is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// lostBy returns the amount that a lost dispute took, in Stripe's unit of the intent's currency. If
// the dispute has another currency, it is the intent's whole amount.
func lostBy(d *api.Dispute, pi *api.PaymentIntent) int64 {
	if d.Currency != pi.Currency {
		return pi.AmountReceived
	}
	return d.Amount
}

// providerRefund converts a refund from Stripe's form.
func providerRefund(r *api.Refund) (payment.ProviderRefund, error) {
	state, err := refundState(r)
	amount, amountErr := fromStripe(r.Amount, currencyOf(r.Currency))
	ours, _ := uuid.Parse(r.Metadata[refundKey]) // zero if this service did not ask for it
	return payment.ProviderRefund{ID: r.ID, RefundID: ours, Amount: amount, State: state, PendingReason: string(r.PendingReason)}, errors.Join(err, amountErr)
}

func refundState(r *api.Refund) (payment.ProviderState, error) {
	switch r.Status {
	case api.RefundStatusPending, api.RefundStatusRequiresAction:
		return payment.ProviderAccepted, nil
	case api.RefundStatusSucceeded:
		return payment.ProviderDone, nil
	case api.RefundStatusFailed, api.RefundStatusCanceled:
		return payment.ProviderFailed, nil
	default:
		return 0, fmt.Errorf("refund has the unknown status %q", r.Status)
	}
}
