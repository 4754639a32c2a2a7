package toss

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"urr.guru/services/payment/internal/payment"
)

const (
	// listTime is the longest time for a page, according to the API reference.
	listTime = time.Minute
	// pageLength is the most entries in a page, whose size must be below maxAnswer.
	pageLength = 200
)

// korea is the time zone of a list's startDate and endDate, which are sent without a zone.
var korea = time.FixedZone("KST", 9*60*60) //nolint:gochecknoglobals // a constant

// transaction is a confirmation or a cancellation.
type transaction struct {
	TransactionKey string    `json:"transactionKey"`
	PaymentKey     string    `json:"paymentKey"`
	OrderID        string    `json:"orderId"`
	Status         string    `json:"status"`
	Currency       string    `json:"currency"`
	Amount         int64     `json:"amount"`
	TransactionAt  time.Time `json:"transactionAt"`
}

// List lists transactions. Toss includes both ends of the period, in whole seconds. The list has no
// reasons of cancellations, and so no refund in it has this service's id.
func (c *Client) List(ctx context.Context, from, to time.Time, cursor string) (entries []payment.LedgerEntry, next string, err error) {
	end := to.Add(-1)
	query := url.Values{"startDate": {local(from)}, "endDate": {local(end)}, "limit": {strconv.Itoa(pageLength)}}
	if cursor != "" {
		query.Set("startingAfter", cursor)
	}
	var got []transaction
	if err := c.call(ctx, request{method: http.MethodGet, path: "/v1/transactions?" + query.Encode()}, &got); err != nil {
		return nil, "", err
	}
	for _, x := range got {
		if x.TransactionAt.Before(from) || !x.TransactionAt.Before(to) {
			continue
		}
		e := payment.LedgerEntry{OrderID: x.OrderID, Amount: x.Amount, Currency: x.Currency, At: x.TransactionAt}
		switch x.Status {
		case "DONE":
			e.Kind, e.ID = payment.LedgerCapture, x.PaymentKey
		case "CANCELED", "PARTIAL_CANCELED":
			e.Kind, e.ID, e.State = payment.LedgerRefund, x.TransactionKey, payment.ProviderDone
			e.Amount = max(e.Amount, -e.Amount) // whether it has a sign is not documented
		case "READY", "IN_PROGRESS", "WAITING_FOR_DEPOSIT", "ABORTED", "EXPIRED":
			continue
		default:
			return nil, "", fmt.Errorf("transaction %s has the unknown status %q", x.TransactionKey, x.Status)
		}
		entries = append(entries, e)
	}
	if len(got) >= pageLength {
		next = got[len(got)-1].TransactionKey
	}
	return entries, next, nil
}

func local(at time.Time) string { return at.In(korea).Format("2006-01-02T15:04:05") }
