package rpc_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/reconcile"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	sandboxclient "urr.guru/services/payment/internal/sandbox"
)

// testDay is the day at which the test's clock starts.
var testDay = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

func TestReconcileNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	accountOf(b).mixed()
	wrong, _ := b.pending("lost-1")
	b.provider.Capture(wrong.GetOrderId(), amount-1)
	require.NoError(t, b.webhook("charge.captured", wrong.GetOrderId()))
	b.untilRefund(wrong, "COMPENSATION", "DONE")
	code, out := b.reconcile()
	require.Equal(t, "reconcile: day=2026-05-01 provider=sandbox captures=6 refunds=5 foreign=1 compared=0 watched=0 gone=0 differences=0\n", out)
	require.Zero(t, code)

	// The provider's time of an entry may be on the other side of midnight: the list has a margin.
	b.clock.Set(testDay.Add(24*time.Hour - time.Second))
	b.confirmed()
	b.clock.Set(testDay.Add(24*time.Hour + time.Second))
	b.confirmed()
	b.exec(`UPDATE payments SET captured_at = timestamptz '2026-05-02T00:00:00Z' + (timestamptz '2026-05-02T00:00:00Z' - captured_at)
		WHERE captured_at > '2026-05-01T23:00:00Z'`)
	for _, day := range []string{"2026-05-01", "2026-05-02"} {
		code, out := b.reconcile("--day", day)
		require.Zero(t, code)
		require.Contains(t, out, "compared=0 ")
	}
	// A capture that became known here on another day than at the provider is looked up.
	b.exec(`UPDATE payments SET captured_at = '2026-05-02T11:59:59Z' WHERE captured_at < '2026-05-01T23:00:00Z'`)
	code, out = b.reconcile("--day", "2026-05-02")
	require.Zero(t, code)
	require.Contains(t, out, "compared=6 ")
	b.provider.Fail(paymenttest.Listings, 1)
	code, _ = b.reconcile()
	require.Equal(t, 1, code)
}

// A captured payment whose provider is not configured is a difference, until the provider is
// configured again or the row is corrected. Free payments are none.
func TestReconcileNamesCapturesOfNoProvider(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.allowNone()
	free, err := b.prepare(b.tickets.Add(user, 0, holdTime), newIdempotencyKey())
	require.NoError(t, err)
	_, err = b.confirm(free, "free", newIdempotencyKey())
	require.NoError(t, err)
	b.confirmed()
	code, out := b.reconcile()
	require.Zero(t, code, out)

	orders := map[string]string{}
	for _, provider := range []string{payment.NoProvider, "removed"} {
		p, _ := b.prepared()
		b.exec(`UPDATE payments SET status = 'CONFIRMED', captured = amount, captured_at = '2026-05-01T23:59:59Z', check_at = NULL, provider = $2 WHERE id = $1`,
			uuid.MustParse(p.GetPaymentId()), provider)
		orders[provider] = p.GetOrderId()
	}
	code, out = b.reconcile("--provider", "sandbox")
	require.Zero(t, code, "another provider was asked for: %s", out)
	code, out = b.reconcile()
	require.Equal(t, 3, code)
	for provider, order := range orders {
		require.Equal(t, []string{"OPEN CAPTURE_UNSERVED"}, found(out, order))
		require.Contains(t, out, "provider="+provider+" captures=0 refunds=0 foreign=0 compared=1 watched=0 gone=0 differences=1\n")
	}
	_, again := b.reconcile("--day", "2026-05-03")
	require.Equal(t, found(out, orders["none"]), found(again, orders["none"]), "it stays open on later days")

	b.exec(`UPDATE payments SET provider = 'sandbox' WHERE provider = 'none'`)
	b.exec(`UPDATE payments SET captured = 0, status = 'DECLINED' WHERE provider = 'removed'`)
	_, out = b.reconcile("--day", "2026-05-03")
	for _, order := range orders {
		require.Contains(t, found(out, order), "CLOSED CAPTURE_UNSERVED")
	}
}

// A payment whose outcome is still unknown is WATCHED. It is a difference only after a day.
func TestReconcileWatchesWhatMoves(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	b.provider.Capture(p.GetOrderId(), amount)
	watched := []string{"WATCHED CAPTURE_ONLY_THERE"}
	for range 2 {
		code, out := b.reconcile()
		require.Zero(t, code)
		require.Equal(t, watched, found(out, p.GetOrderId()))
	}
	b.exec(`UPDATE differences SET first_seen = first_seen - interval '1 day'`)
	code, out := b.reconcile("--day", "2026-05-02")
	require.Equal(t, 3, code)
	require.Equal(t, []string{"OPEN CAPTURE_ONLY_THERE"}, found(out, p.GetOrderId()))
	b.becomes(p, "CONFIRMED")
	code, out = b.reconcile("--day", "2026-05-02")
	require.Zero(t, code)
	require.Equal(t, []string{"CLOSED CAPTURE_ONLY_THERE"}, found(out, p.GetOrderId()))
}

// A payment that changes while a run reads both sides is not reported as a difference.
func TestReconcileLooksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	b.provider.Capture(p.GetOrderId(), amount)
	late, _ := b.pending("lost-1")
	store := &interruptedStore{Store: b.store(), between: func() {
		b.becomes(p, "CONFIRMED")
		b.exec(`UPDATE payments SET captured = amount, captured_at = '2026-05-01T12:00:00Z', charge_id = '', status = 'CONFIRMED' WHERE id = $1`,
			uuid.MustParse(late.GetPaymentId()))
	}}
	provider := &interruptedAsk{Provider: b.sandbox, orderID: late.GetOrderId(), after: func() {
		b.provider.Capture(late.GetOrderId(), amount)
		b.exec(`UPDATE payments SET version = version + 1 WHERE id = $1`, uuid.MustParse(late.GetPaymentId()))
	}}
	store.earlier = []reconcile.Difference{{OrderID: late.GetOrderId(), Kind: reconcile.CaptureOnlyHere}}
	source := reconcile.Source{Provider: provider, Name: sandboxclient.Name}
	sum, err := reconcile.Run(t.Context(), store, store, source, testDay, func(f reconcile.Finding) error { return errors.New(f.String()) })
	require.NoError(t, err)
	require.Equal(t, reconcile.Summary{Provider: "sandbox", Day: testDay, Captures: 1, Compared: 2}, sum)
}

// interruptedStore runs between after the lists are compared, before orders are compared again.
type interruptedStore struct {
	*postgres.Store

	between func()
	earlier []reconcile.Difference
}

func (s *interruptedStore) Unclosed(context.Context, string) ([]reconcile.Difference, error) {
	s.between()
	return s.earlier, nil
}

// interruptedAsk is a provider that calls after, once, when it has answered about the order.
type interruptedAsk struct {
	payment.Provider

	orderID string
	after   func()
}

func (a *interruptedAsk) Ask(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
	out, err := a.Provider.Ask(ctx, p)
	if after := a.after; p.OrderID == a.orderID && after != nil {
		a.after = nil
		after()
	}
	return out, err
}

// Concurrent runs, and a run after one that died, store the same differences as a single run.
func TestReconcileTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	accountOf(b).mixed()
	accountOf(b).planted()
	table := func() []string {
		rows, err := b.pool.Query(t.Context(), `SELECT kind || order_id || entry_id || ours || theirs || status || closed_by FROM differences ORDER BY 1`)
		require.NoError(t, err)
		list, err := pgx.CollectRows(rows, pgx.RowTo[string])
		require.NoError(t, err)
		return list
	}
	b.reconcile()
	once := table()
	require.Len(t, once, 13)
	b.exec(`DELETE FROM differences`)

	died := errors.New("died")
	source := reconcile.Source{Provider: b.sandbox, Name: sandboxclient.Name}
	_, err := reconcile.Run(t.Context(), b.store(), b.store(), source, testDay, func(reconcile.Finding) error { return died })
	require.ErrorIs(t, err, died)
	source.Provider = repeatingProvider{b.sandbox}
	sum, err := reconcile.Run(t.Context(), b.store(), b.store(), source, testDay, func(reconcile.Finding) error { return nil })
	require.NoError(t, err)
	require.Equal(t, 13, sum.Differences, "an entry that is listed twice counts once")
	require.Equal(t, once, table())
	b.exec(`DELETE FROM differences`)
	var runs sync.WaitGroup
	for range 3 {
		runs.Go(func() { b.reconcile() })
	}
	runs.Wait()
	require.Equal(t, once, table())
}

// repeatingProvider lists each entry twice, as may happen if entries are added during the listing.
type repeatingProvider struct{ payment.Provider }

func (l repeatingProvider) List(ctx context.Context, from, to time.Time, cursor string) ([]payment.LedgerEntry, string, error) {
	entries, next, err := l.Provider.List(ctx, from, to, cursor)
	return append(entries, entries...), next, err
}

// A day of 10,000 captures is read in pages, here and at the provider.
func TestReconcileManyCaptures(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const n = 10_000
	orders, charges := make([]string, n), make([]string, n)
	for i := range n {
		orders[i] = uuid.NewString()
		b.provider.Capture(orders[i], amount)
		charges[i] = b.provider.Order(orders[i]).ChargeID
	}
	for i := 0; i < n; i += 500 { // statements short enough for a slow machine
		b.exec(`INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, charge_id,
				captured, captured_at, expires_at)
			SELECT gen_random_uuid(), o, 'reservation', gen_random_uuid(), 'ann', 'e', $3, 'KRW', 'sandbox', 'CONFIRMED', c, $3, '2026-05-01T12:00:00Z', now()
			FROM unnest($1::text[], $2::text[]) AS x (o, c)`, orders[i:i+500], charges[i:i+500], amount)
	}
	store := &pagedStore{Store: b.store()}
	source := reconcile.Source{Provider: b.sandbox, Name: sandboxclient.Name}
	sum, err := reconcile.Run(t.Context(), store, store, source, testDay, func(f reconcile.Finding) error { return errors.New(f.String()) })
	require.NoError(t, err)
	require.Equal(t, reconcile.Summary{Provider: "sandbox", Day: testDay, Captures: n}, sum)
	require.LessOrEqual(t, store.largest, 1000)
	require.Equal(t, 10, b.provider.Calls(paymenttest.Listings))

	b.exec(`DELETE FROM payments WHERE order_id = $1`, orders[0])
	b.exec(`UPDATE payments SET order_id = $2 WHERE order_id = $1`, orders[n-1], uuid.NewString())
	code, out := b.reconcile()
	require.Equal(t, 3, code)
	require.Contains(t, out, "differences=3\n", "two are unknown here, and one is missing there")
}

// pagedStore records the most orders that were read at once.
type pagedStore struct {
	*postgres.Store

	largest int
}

func (p *pagedStore) ByOrderIDs(ctx context.Context, provider string, orders []string) (map[string]reconcile.PaymentWithRefunds, error) {
	p.largest = max(p.largest, len(orders))
	return p.Store.ByOrderIDs(ctx, provider, orders)
}
