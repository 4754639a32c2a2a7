package sandbox

import (
	"cmp"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Entry is a capture or a refund in a listing of the account.
type Entry struct {
	// Kind is CAPTURE or REFUND.
	Kind    string `json:"kind"`
	OrderID string `json:"orderId"`
	// ID is the id of the charge or the refund.
	ID        string       `json:"id"`
	Reference string       `json:"reference,omitempty"`
	Amount    int64        `json:"amount"` // minor units
	Currency  string       `json:"currency"`
	Status    RefundStatus `json:"status,omitempty"`
	At        time.Time    `json:"at"`
}

// maxEntries is the most entries in a page.
const maxEntries = 1000

// Entries returns up to maxEntries captures and refunds that were made at or after from and before
// to, oldest first, without the first skip ones. more says that there are further ones.
func (l *Ledger) Entries(from, to time.Time, skip int) (page []Entry, more bool) {
	charges, refunds := l.All()
	currencies := map[string]string{}
	var all []Entry
	for _, c := range charges {
		currencies[c.OrderID] = c.Currency
		if c.Status == Captured {
			all = append(all, Entry{Kind: "CAPTURE", OrderID: c.OrderID, ID: c.ChargeID, Amount: c.Amount, Currency: c.Currency, At: c.At})
		}
	}
	for _, r := range refunds {
		all = append(all, Entry{
			Kind: "REFUND", OrderID: r.OrderID, ID: r.RefundID, Reference: r.Reference, Amount: r.Amount, Currency: currencies[r.OrderID],
			Status: r.Status, At: r.At,
		})
	}
	all = slices.DeleteFunc(all, func(e Entry) bool { return e.At.Before(from) || !e.At.Before(to) })
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.ID, b.ID)) })
	all = all[min(max(skip, 0), len(all)):]
	return all[:min(maxEntries, len(all))], len(all) > maxEntries
}

// listEntries answers ?from=&to=&cursor= with a page of entries; cursor is next of the last page.
func (s *Server) listEntries(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	from, err := time.Parse(time.RFC3339Nano, q.Get("from"))
	to, errTo := time.Parse(time.RFC3339Nano, q.Get("to"))
	skip, errCursor := strconv.Atoi(cmp.Or(q.Get("cursor"), "0"))
	if cmp.Or(err, errTo, errCursor) != nil {
		refuse(w, http.StatusBadRequest, "from and to must be times as 2026-03-07T12:00:00Z, cursor that of an answer")
		return
	}
	entries, more := s.ledger.Entries(from, to, skip)
	next := ""
	if more {
		next = strconv.Itoa(skip + len(entries))
	}
	answer(w, http.StatusOK, map[string]any{"entries": entries, "next": next})
}
