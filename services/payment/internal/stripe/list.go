package stripe

import (
	"cmp"
	"context"
	"strings"
	"time"

	api "github.com/stripe/stripe-go/v85"

	"urr.guru/services/payment/internal/payment"
)

// refundsFrom is the prefix of a cursor in the refunds. The rest of it is the id after which the
// page begins. A cursor in the movements is such an id without a prefix.
const refundsFrom = "refunds:"

// disputesFrom is the prefix of a cursor in the disputes.
const disputesFrom = "disputes:"

// pageLength is the most entries in a page. Stripe allows 100, but maxAnswer limits an answer's
// size, and each entry includes another object.
const pageLength = 50

// List lists movements of the balance, then refunds, disputes and warnings of fraud. Captures are found
// by movements, since a charge has the time of its authorisation, as is money that comes back days
// later. Refunds are also listed as refunds, since a pending refund has no movement yet.
func (c *Client) List(ctx context.Context, from, to time.Time, cursor string) ([]payment.LedgerEntry, string, error) {
	created := &api.RangeQueryParams{GreaterThanOrEqual: seconds(from), LesserThan: seconds(to)}
	if after, ok := strings.CutPrefix(cursor, refundsFrom); ok {
		return c.listRefunds(ctx, created, after)
	}
	if after, ok := strings.CutPrefix(cursor, disputesFrom); ok {
		return c.listDisputes(ctx, created, after)
	}
	if after, ok := strings.CutPrefix(cursor, warningsFrom); ok {
		return c.listWarnings(ctx, created, after)
	}
	return c.listMovements(ctx, created, cursor)
}

// seconds returns at, rounded up to whole seconds: Stripe's times have no fractions.
func seconds(at time.Time) int64 { return at.Add(time.Second - 1).Unix() }

// page returns the parameters for the page after the id after; empty: the first page.
func page(after string) api.ListParams {
	p := api.ListParams{Limit: api.Int64(pageLength), Single: true}
	if after != "" {
		p.StartingAfter = api.String(after)
	}
	return p
}

func (c *Client) listMovements(ctx context.Context, created *api.RangeQueryParams, after string) ([]payment.LedgerEntry, string, error) {
	params := &api.BalanceTransactionListParams{ListParams: page(after), CreatedRange: created}
	params.AddExpand("data.source")
	list := c.api().V1BalanceTransactions.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failed("list the balance", list.Err())
	}
	var entries []payment.LedgerEntry
	next := refundsFrom
	for _, x := range list.Data() {
		if list.Meta().HasMore {
			next = x.ID
		}
		e, ok, err := entryOf(x)
		if err != nil {
			return nil, "", err
		}
		if ok {
			entries = append(entries, e)
		}
	}
	return entries, next, nil
}

// entryOf converts a movement: a capture, one of a refund that has failed (the return of its money is
// a refund_failure), or what a dispute takes or gives back. ok is false for any other. The movement's
// amounts are in the account's currency, those of charges and refunds in the buyer's. A refund by
// hand contains no order, and neither does a dispute.
func entryOf(x *api.BalanceTransaction) (e payment.LedgerEntry, ok bool, err error) {
	e.At = time.Unix(x.Created, 0)
	var intent *api.PaymentIntent
	switch s := x.Source; {
	case s == nil:
	case s.Charge != nil && (x.Type == api.BalanceTransactionTypeCharge || x.Type == api.BalanceTransactionTypePayment):
		if intent = s.Charge.PaymentIntent; intent != nil {
			e.Kind, e.OrderID, e.ID = payment.LedgerCapture, s.Charge.Metadata[orderKey], intent.ID
			e.Currency = currencyOf(s.Charge.Currency)
			e.Amount, err = fromStripe(s.Charge.AmountCaptured, e.Currency)
		}
		return e, intent != nil, err
	case s.Refund != nil && (s.Refund.Status == api.RefundStatusFailed || s.Refund.Status == api.RefundStatusCanceled):
		e, err = refundEntry(s.Refund)
		e.At, intent = time.Unix(x.Created, 0), s.Refund.PaymentIntent
	case s.Dispute != nil:
		e.Kind, e.ID, intent = payment.LedgerDispute, s.Dispute.ID, s.Dispute.PaymentIntent
	}
	if intent != nil {
		e.ChargeID = intent.ID
	}
	return e, intent != nil, err
}

func (c *Client) listRefunds(ctx context.Context, created *api.RangeQueryParams, after string) ([]payment.LedgerEntry, string, error) {
	params := &api.RefundListParams{ListParams: page(after), CreatedRange: created}
	params.AddExpand("data.payment_intent") // a refund by hand does not contain the order
	list := c.api().V1Refunds.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failed("list refunds", list.Err())
	}
	var entries []payment.LedgerEntry
	next := disputesFrom
	for _, r := range list.Data() {
		if list.Meta().HasMore {
			next = refundsFrom + r.ID
		}
		e, err := refundEntry(r)
		if err != nil {
			return nil, "", err
		}
		entries = append(entries, e)
	}
	return entries, next, nil
}

func refundEntry(r *api.Refund) (payment.LedgerEntry, error) {
	x, err := providerRefund(r)
	e := payment.LedgerEntry{
		Kind: payment.LedgerRefund, ID: x.ID, RefundID: x.RefundID, Amount: x.Amount, Currency: currencyOf(r.Currency),
		At: time.Unix(r.Created, 0), State: x.State,
	}
	if r.PaymentIntent != nil {
		e.OrderID = r.PaymentIntent.Metadata[orderKey]
	}
	e.OrderID = cmp.Or(e.OrderID, r.Metadata[orderKey])
	return e, err
}

func (c *Client) listDisputes(ctx context.Context, created *api.RangeQueryParams, after string) ([]payment.LedgerEntry, string, error) {
	params := &api.DisputeListParams{ListParams: page(after), CreatedRange: created}
	params.AddExpand("data.payment_intent") // a dispute does not contain the order
	list := c.api().V1Disputes.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failed("list disputes", list.Err())
	}
	var entries []payment.LedgerEntry
	next := warningsFrom
	for _, x := range list.Data() {
		if list.Meta().HasMore {
			next = disputesFrom + x.ID
		}
		if x.PaymentIntent != nil {
			entries = append(entries, payment.LedgerEntry{
				Kind: payment.LedgerDispute, OrderID: x.PaymentIntent.Metadata[orderKey], ID: x.ID, At: time.Unix(x.Created, 0),
			})
		}
	}
	return entries, next, nil
}

func currencyOf(c api.Currency) string { return strings.ToUpper(string(c)) }
