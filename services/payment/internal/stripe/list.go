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
// page begins. A cursor in the captures is such an id without a prefix.
const refundsFrom = "refunds:"

// disputesFrom is the prefix of a cursor in the disputes.
const disputesFrom = "disputes:"

// pageLength is the most entries in a page. Stripe allows 100, but maxAnswer limits an answer's
// size, and each entry includes another object.
const pageLength = 50

// List lists captures, then refunds, then disputes. Captures are found by movements of the balance,
// since a charge has the time of its authorisation. Refunds are listed as refunds, since a pending
// refund has no movement yet.
func (c *Client) List(ctx context.Context, from, to time.Time, cursor string) ([]payment.LedgerEntry, string, error) {
	created := &api.RangeQueryParams{GreaterThanOrEqual: seconds(from), LesserThan: seconds(to)}
	if after, ok := strings.CutPrefix(cursor, refundsFrom); ok {
		return c.listRefunds(ctx, created, after)
	}
	if after, ok := strings.CutPrefix(cursor, disputesFrom); ok {
		return c.listDisputes(ctx, created, after)
	}
	return c.listCaptures(ctx, created, cursor)
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

func (c *Client) listCaptures(ctx context.Context, created *api.RangeQueryParams, after string) ([]payment.LedgerEntry, string, error) {
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
		// The movement's amounts are in the account's currency, the charge's in the buyer's.
		if isCapture := x.Type == api.BalanceTransactionTypeCharge || x.Type == api.BalanceTransactionTypePayment; !isCapture ||
			x.Source == nil || x.Source.Charge == nil || x.Source.Charge.PaymentIntent == nil {
			continue
		}
		charge := x.Source.Charge
		entries = append(entries, payment.LedgerEntry{
			Kind: payment.LedgerCapture, OrderID: charge.Metadata[orderKey], ID: charge.PaymentIntent.ID, Amount: charge.AmountCaptured,
			Currency: currencyOf(charge.Currency), At: time.Unix(x.Created, 0),
		})
	}
	return entries, next, nil
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
		x, err := providerRefund(r)
		if err != nil {
			return nil, "", err
		}
		e := payment.LedgerEntry{
			Kind: payment.LedgerRefund, ID: x.ID, RefundID: x.RefundID, Amount: x.Amount, Currency: currencyOf(r.Currency),
			At: time.Unix(r.Created, 0), State: x.State,
		}
		if r.PaymentIntent != nil {
			e.OrderID = r.PaymentIntent.Metadata[orderKey]
		}
		e.OrderID = cmp.Or(e.OrderID, r.Metadata[orderKey])
		entries = append(entries, e)
	}
	return entries, next, nil
}

func (c *Client) listDisputes(ctx context.Context, created *api.RangeQueryParams, after string) ([]payment.LedgerEntry, string, error) {
	params := &api.DisputeListParams{ListParams: page(after), CreatedRange: created}
	params.AddExpand("data.payment_intent") // a dispute does not contain the order
	list := c.api().V1Disputes.List(ctx, params)
	if list.Err() != nil {
		return nil, "", failed("list disputes", list.Err())
	}
	var entries []payment.LedgerEntry
	next := ""
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
