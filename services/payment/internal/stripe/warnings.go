package stripe

import (
	"cmp"
	"context"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/payment"
)

// warningsFrom is the prefix of a cursor in the early fraud warnings.
const warningsFrom = "warnings:"

// listWarnings lists early fraud warnings: a card's issuer takes a charge for fraud, before its holder
// disputes it (docs.stripe.com/disputes/measuring#early-fraud-warnings).
func (c *Client) listWarnings(ctx context.Context, created *api.RangeQueryParams, after string) ([]payment.LedgerEntry, string, error) {
	params := &api.RadarEarlyFraudWarningListParams{ListParams: page(after), CreatedRange: created}
	params.AddExpand("data.payment_intent") // a warning does not contain the order
	list := c.api().V1RadarEarlyFraudWarnings.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failed("list early fraud warnings", list.Err())
	}
	var entries []payment.LedgerEntry
	next := ""
	for _, x := range list.Data() {
		if list.Meta().HasMore {
			next = warningsFrom + x.ID
		}
		if x.PaymentIntent != nil {
			entries = append(entries, payment.LedgerEntry{
				Kind: payment.LedgerWarning, OrderID: x.PaymentIntent.Metadata[orderKey], ID: x.ID, At: time.Unix(x.Created, 0),
				FraudType: fraudType(string(x.FraudType)),
			})
		}
	}
	return entries, next, nil
}

// fraudType returns the kind of fraud in a warning, which is never empty.
func fraudType(kind string) string { return cmp.Or(kind, "unknown") }
