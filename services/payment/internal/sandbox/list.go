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

func (c *Client) List(ctx context.Context, from, to time.Time, cursor string) (entries []payment.LedgerEntry, next string, err error) {
	var got struct {
		Entries []struct {
			refund

			Kind     string    `json:"kind"`
			OrderID  string    `json:"orderId"`
			ID       string    `json:"id"`
			Currency string    `json:"currency"`
			At       time.Time `json:"at"`
		} `json:"entries"`
		Next string `json:"next"`
	}
	query := url.Values{"from": {from.Format(time.RFC3339Nano)}, "to": {to.Format(time.RFC3339Nano)}, "cursor": {cursor}}
	code, err := c.send(ctx, http.MethodGet, "/v1/ledger/entries?"+query.Encode(), nil, time.Time{}, &got)
	if err != nil {
		return nil, "", err
	}
	if code != http.StatusOK {
		return nil, "", fmt.Errorf("list entries: status %d", code)
	}
	for _, g := range got.Entries {
		e := payment.LedgerEntry{Kind: payment.LedgerCapture, OrderID: g.OrderID, ID: g.ID, Amount: g.Amount, Currency: g.Currency, At: g.At}
		switch g.Kind {
		case "CAPTURE":
		case "REFUND":
			e.Kind = payment.LedgerRefund
			e.RefundID, _ = uuid.Parse(g.Reference) // other references are not ids of this service
			if e.State, err = g.state(); err != nil {
				return nil, "", err
			}
		default:
			return nil, "", fmt.Errorf("entry %s has the unknown kind %q", g.ID, g.Kind)
		}
		entries = append(entries, e)
	}
	return entries, got.Next, nil
}
