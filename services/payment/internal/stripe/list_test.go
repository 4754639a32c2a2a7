package stripe_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
)

// listAll reads all pages of a period. It returns captures before refunds, each oldest first.
func listAll(ctx context.Context, t *testing.T, l payment.Lister, from, to time.Time) (entries []payment.LedgerEntry) {
	t.Helper()
	for cursor := ""; ; {
		page, next, err := l.List(ctx, from, to, cursor)
		require.NoError(t, err)
		entries = append(entries, page...)
		if next == "" {
			break
		}
		require.NotEqual(t, cursor, next)
		cursor = next
	}
	slices.Reverse(entries)
	slices.SortStableFunc(entries, func(a, b payment.LedgerEntry) int { return int(a.Kind - b.Kind) })
	for i := range entries {
		entries[i].At = entries[i].At.UTC()
	}
	return entries
}

// A capture is listed at its own time with the captured amount. A pending refund is listed already.
func TestList(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	start := b.clock.Now()
	list := func(from, to time.Duration) []payment.LedgerEntry {
		return listAll(t.Context(), t, b, start.Add(from), start.Add(to))
	}
	require.Empty(t, list(0, time.Hour))
	_, page := b.opened()
	b.choose(page, fake.Decline)
	voided := b.authorized()
	_, err := b.Cancel(t.Context(), voided)
	require.NoError(t, err)
	p := b.authorized()
	b.clock.Advance(time.Hour)
	require.Empty(t, list(0, 2*time.Hour), "authorised, and not captured")
	out, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	p.ChargeID = out.ChargeID
	capture := payment.LedgerEntry{
		Kind: payment.LedgerCapture, OrderID: p.OrderID, ID: out.ChargeID, Amount: amount, Currency: "KRW", At: start.Add(time.Hour),
	}
	require.Equal(t, []payment.LedgerEntry{capture}, list(0, 2*time.Hour))
	require.Empty(t, list(0, time.Hour))
	require.Equal(t, []payment.LedgerEntry{capture}, list(time.Hour, time.Hour+1))
	require.Empty(t, list(time.Hour+1, 2*time.Hour))

	call := refundCall(p, b, "1", 20000)
	answer, err := b.Refund(t.Context(), call)
	require.NoError(t, err)
	require.NoError(t, b.fake.RefundByHand(p.OrderID, 100))
	b.fake.SetRules(fake.Rules{PendingRefunds: true})
	require.NoError(t, b.fake.RefundByHand(p.OrderID, 200))
	refunds := b.fake.Order(p.OrderID).Refunds
	require.Equal(t, answer.ID, refunds[0].ID)
	refunded := func(i int, ours uuid.UUID, amount int64, state payment.ProviderState) payment.LedgerEntry {
		return payment.LedgerEntry{
			Kind: payment.LedgerRefund, OrderID: p.OrderID, ID: refunds[i].ID, RefundID: ours, Amount: amount, Currency: "KRW", At: capture.At, State: state,
		}
	}
	require.Equal(t, []payment.LedgerEntry{
		capture, refunded(0, call.RefundID, 20000, payment.ProviderDone), refunded(1, uuid.Nil, 100, payment.ProviderDone),
		refunded(2, uuid.Nil, 200, payment.ProviderAccepted),
	}, list(0, 2*time.Hour))

	require.NoError(t, b.fake.WarnOfFraud(p.OrderID, "misc"))
	entries := list(0, 2*time.Hour)
	warning := entries[len(entries)-1]
	require.Equal(t, payment.LedgerEntry{Kind: payment.LedgerWarning, OrderID: p.OrderID, ID: warning.ID, At: capture.At, FraudType: "misc"}, warning)

	other := b.fake.Charge("of-another-shop", "usd", 700)
	require.Contains(t, list(0, 2*time.Hour), payment.LedgerEntry{
		Kind: payment.LedgerCapture, OrderID: "of-another-shop", ID: other, Amount: 700, Currency: "USD", At: capture.At,
	})
}

// Money that comes back days later is listed at that time: that of failed refunds, by hand too, and
// what a dispute took. A failed refund stays in the list of its own day.
func TestListMoneyThatComesBack(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	first := b.clock.Now()
	call := refundCall(p, b, "1", 20000)
	_, err := b.Refund(t.Context(), call)
	require.NoError(t, err)
	require.NoError(t, b.fake.RefundByHand(p.OrderID, 100))
	require.NoError(t, b.fake.Dispute(p.OrderID, ""))
	require.NoError(t, b.fake.Dispute(p.OrderID, "lost"))
	b.clock.Advance(5 * 24 * time.Hour)
	refunds := b.fake.Order(p.OrderID).Refunds
	for _, r := range refunds {
		require.NoError(t, b.fake.SettleRefund(r.ID, "failed"))
	}
	require.NoError(t, b.fake.Dispute(p.OrderID, "won"))
	back := func(i int, order string, ours uuid.UUID, amount int64) payment.LedgerEntry {
		return payment.LedgerEntry{
			Kind: payment.LedgerRefund, OrderID: order, ChargeID: p.ChargeID, ID: refunds[i].ID, RefundID: ours, Amount: amount, Currency: "KRW",
			At: b.clock.Now(), State: payment.ProviderFailed,
		}
	}
	list := listAll(t.Context(), t, b, b.clock.Now(), b.clock.Now().Add(time.Hour))
	require.Len(t, list, 3)
	require.Equal(t, []payment.LedgerEntry{back(0, p.OrderID, call.RefundID, 20000), back(1, "", uuid.Nil, 100)}, list[:2])
	require.Equal(t, payment.LedgerEntry{Kind: payment.LedgerDispute, ChargeID: p.ChargeID, ID: list[2].ID, At: b.clock.Now()}, list[2])

	failed := 0
	for _, e := range listAll(t.Context(), t, b, first, first.Add(time.Hour)) {
		if e.Kind == payment.LedgerRefund && e.ChargeID == "" {
			require.Equal(t, []any{p.OrderID, payment.ProviderFailed}, []any{e.OrderID, e.State})
			failed++
		}
	}
	require.Equal(t, 2, failed)
}

func TestListManyPages(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	from := b.clock.Now()
	p := b.captured()
	for range 100 {
		b.fake.Charge(uuid.NewString(), "krw", 1)
		require.NoError(t, b.fake.RefundByHand(p.OrderID, 1))
	}
	entries := listAll(t.Context(), t, b, from, from.Add(time.Hour))
	require.Len(t, entries, 201)
	ids := map[string]bool{}
	for _, e := range entries {
		ids[e.ID] = true
	}
	require.Len(t, ids, 201)
	require.Equal(t, 7, b.fake.Calls.Count(fake.ListBalance))
	require.Equal(t, 2, b.fake.Calls.Count(fake.ListRefunds))
	for call, cursor := range map[string]string{fake.ListBalance: "", fake.ListRefunds: "refunds:"} {
		b.fake.Calls.Inject(call, fakes.Garbled)
		_, _, err := b.List(t.Context(), from, from.Add(time.Hour), cursor)
		require.Error(t, err)
	}
}
