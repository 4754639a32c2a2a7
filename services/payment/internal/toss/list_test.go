package toss_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/toss"
)

// listAll reads all pages of a period. It returns the entries and the number of pages.
func listAll(t *testing.T, c *toss.Client, from, to time.Time) (entries []payment.LedgerEntry, pages int) {
	t.Helper()
	for cursor := ""; ; {
		page, next, err := c.List(t.Context(), from, to, cursor)
		require.NoError(t, err)
		entries, pages = append(entries, page...), pages+1
		if next == "" {
			return entries, pages
		}
		require.NotEqual(t, cursor, next)
		cursor = next
	}
}

// Confirmations and cancellations are listed with the ids that look-ups return. A payment that was
// not confirmed is not listed.
func TestList(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	from := s.clock.Now()
	entries, pages := listAll(t, s.client, from, from.Add(time.Hour))
	require.Empty(t, entries)
	require.Equal(t, 1, pages)

	s.pay()
	declined := s.pay()
	declined.PaymentKey = s.choose(declined, "decline")
	_, err := s.client.Charge(t.Context(), declined, payment.Outcome{})
	require.NoError(t, err)
	p := s.charged()
	s.clock.Advance(time.Second)
	answer, err := s.client.Refund(t.Context(), s.call(p, 20000))
	require.NoError(t, err)
	require.Empty(t, s.toss.GiveBack(p.PaymentKey, 0))
	entries, _ = listAll(t, s.client, from, from.Add(time.Hour))
	require.Len(t, entries, 3)
	for i := range entries {
		entries[i].At = entries[i].At.UTC()
	}
	report := s.report(p)
	require.Equal(t, answer.ID, report.Refunds[0].ID)
	refunded := func(id string, amount int64) payment.LedgerEntry {
		return payment.LedgerEntry{
			Kind: payment.LedgerRefund, OrderID: p.OrderID, ID: id, Amount: amount, Currency: "KRW", At: from.Add(time.Second), State: payment.ProviderDone,
		}
	}
	require.Equal(t, []payment.LedgerEntry{
		{Kind: payment.LedgerCapture, OrderID: p.OrderID, ID: s.ask(p).ChargeID, Amount: amount, Currency: "KRW", At: from},
		refunded(answer.ID, 20000), refunded(report.Refunds[1].ID, 35000),
	}, entries)

	for _, period := range []struct {
		from, to time.Duration
		want     int
	}{{0, time.Second, 1}, {1, time.Second, 0}, {time.Second, time.Second + 1, 2}, {0, time.Second + 1, 3}, {time.Hour, 2 * time.Hour, 0}} {
		entries, _ := listAll(t, s.client, from.Add(period.from), from.Add(period.to))
		require.Len(t, entries, period.want, "%+v", period)
	}
}

func TestListManyPages(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	from, p := s.clock.Now(), s.charged()
	for range 399 {
		require.Empty(t, s.toss.GiveBack(p.PaymentKey, 1))
	}
	entries, pages := listAll(t, s.client, from, from.Add(time.Hour))
	require.Len(t, entries, 400)
	require.Equal(t, 3, pages, "the last page is empty: two were full")
	keys := map[string]bool{}
	for _, e := range entries {
		keys[e.ID] = true
	}
	require.Len(t, keys, 400)
	_, _, err := s.client.List(t.Context(), from, from.Add(time.Hour), "unknown")
	require.ErrorContains(t, err, "INVALID_TRANSACTION_KEY")
	s.toss.Inject(fake.Listings, fakes.Garbled)
	_, _, err = s.client.List(t.Context(), from, from.Add(time.Hour), "")
	require.Error(t, err)
}

// The amount of a cancellation may have a sign, since the reference does not say. An unknown status
// is an error, not an empty day.
func TestListIsCareful(t *testing.T) {
	t.Parallel()
	body := ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
	t.Cleanup(server.Close)
	c := toss.NewClient(secretKey, toss.Options{URL: server.URL})
	t.Cleanup(c.Close)
	from := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	for _, amount := range []string{"700", "-700"} {
		body = `[{"transactionKey": "t", "status": "PARTIAL_CANCELED", "amount": ` + amount + `, "transactionAt": "2026-05-01T09:00:00+09:00"}]`
		entries, _, err := c.List(t.Context(), from, from.Add(time.Second), "")
		require.NoError(t, err)
		require.EqualValues(t, 700, entries[0].Amount)
	}
	body = `[{"transactionKey": "t", "status": "SOMETHING", "transactionAt": "2026-05-01T09:00:00+09:00"}]`
	_, _, err := c.List(t.Context(), from, from.Add(time.Second), "")
	require.ErrorContains(t, err, "SOMETHING")
}
