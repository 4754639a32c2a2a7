package rpc_test

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/faults"
	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/app"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/reconcile"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	sandboxclient "urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/sandbox"
)

// testDay is the day of the test's clock.
var testDay = time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)

// reconcile runs the command for the day of the test's clock, and returns its exit code and output.
func (b *bundle) reconcile(args ...string) (code int, out string) {
	b.t.Helper()
	cfg := &app.Config{
		Providers: []string{"sandbox"}, SandboxURL: b.server.URL, ProviderTimeout: noTimeout, LookupsPerSecond: 1e6,
		Postgres: pkgpostgres.Config{URL: config.Secret(b.pool.Config().ConnString())},
	}
	var text bytes.Buffer
	err := app.Reconcile().Run(b.t.Context(), cfg, append([]string{"--day", "2026-05-01"}, args...), &text)
	var exit *lifecycle.Exit
	if errors.As(err, &exit) {
		b.t.Log(exit)
		return exit.Code, text.String()
	}
	require.NoError(b.t, err)
	return 0, text.String()
}

// found are the statuses and kinds of an order's differences in an output, sorted.
func found(out, orderID string) []string {
	var kinds []string
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); strings.Contains(line, "order="+orderID+" ") {
			kinds = append(kinds, words[0]+" "+words[1])
		}
	}
	slices.Sort(kinds)
	return kinds
}

// mixed makes payments and refunds of all kinds in which the two sides agree.
func (b *bundle) mixed() {
	b.t.Helper()
	b.prepared()
	declined, _ := b.prepared()
	_, err := b.confirm(declined, "decline-1", newIdempotencyKey())
	require.NoError(b.t, err)
	b.confirmed()
	part, _ := b.paid(30000, 25000)
	b.ask(part, payment.ByUser, "part", 0)
	whole, _ := b.paid(amount)
	b.ask(whole, payment.ByOperator, "whole")
	b.untilRefund(part, "USER", "DONE")
	b.untilRefund(whole, "OPERATOR", "DONE")
	accepted, _ := b.paid(amount)
	b.provider.SetFaults(sandbox.Faults{Pending: 1, SettleFor: faults.Duration(time.Hour)})
	b.ask(accepted, payment.ByOperator, "accepted")
	b.untilRefund(accepted, "OPERATOR", "ACCEPTED")
	b.provider.SetFaults(sandbox.Faults{})
	byHand, _ := b.paid(amount)
	b.provider.RefundManually(byHand.GetOrderId(), 100)
	require.NoError(b.t, b.webhook("charge.refunded", byHand.GetOrderId()))
	b.untilRefund(byHand, "BY_HAND", "DONE")
	wrong, _ := b.pending("lost-1")
	b.provider.Capture(wrong.GetOrderId(), amount-1)
	require.NoError(b.t, b.webhook("charge.captured", wrong.GetOrderId()))
	b.untilRefund(wrong, "COMPENSATION", "DONE")
	b.provider.Capture("of-another-shop", 1)
}

func TestReconcileNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mixed()
	code, out := b.reconcile()
	require.Equal(t, "reconcile: day=2026-05-01 provider=sandbox captures=6 refunds=5 foreign=1 looked=0 watched=0 gone=0 differences=0\n", out)
	require.Zero(t, code)

	// Around midnight the counterpart may be on the other day: the margin of the list has it.
	b.clock.Set(testDay.Add(24*time.Hour - time.Second))
	b.confirmed()
	b.clock.Set(testDay.Add(24*time.Hour + time.Second))
	b.confirmed()
	b.exec(`UPDATE payments SET captured_at = timestamptz '2026-05-02T00:00:00Z' + (timestamptz '2026-05-02T00:00:00Z' - captured_at)
		WHERE captured_at > '2026-05-01T23:00:00Z'`)
	for _, day := range []string{"2026-05-01", "2026-05-02"} {
		code, out := b.reconcile("--day", day)
		require.Zero(t, code)
		require.Contains(t, out, "looked=0 ")
	}
	// What became known here on another day is looked for.
	b.exec(`UPDATE payments SET captured_at = '2026-05-02T11:59:59Z' WHERE captured_at < '2026-05-01T23:00:00Z'`)
	code, out = b.reconcile("--day", "2026-05-02")
	require.Zero(t, code)
	require.Contains(t, out, "looked=6 ")
	b.provider.Fail(paymenttest.Listings, 1)
	code, _ = b.reconcile()
	require.Equal(t, 1, code)
}

// planted makes a difference of each kind, and returns the kinds by order.
func (b *bundle) planted() map[string][]string {
	b.t.Helper()
	want := map[string][]string{}
	plant := func(p *paymentv1.PrepareResponse, sql string, kinds ...string) {
		if sql != "" {
			b.exec(sql, uuid.MustParse(p.GetPaymentId()))
		}
		want[p.GetOrderId()] = kinds
	}
	unknown := uuid.NewString()
	b.provider.Capture(unknown, 1000)
	want[unknown] = []string{"OPEN CAPTURE_UNKNOWN"}
	declined, _ := b.prepared()
	_, err := b.confirm(declined, "decline-1", newIdempotencyKey())
	require.NoError(b.t, err)
	b.provider.Capture(declined.GetOrderId(), amount)
	plant(declined, "", "OPEN CAPTURE_ONLY_THERE")
	missing, _ := b.prepared()
	plant(missing, `UPDATE payments SET status = 'CONFIRMED', captured = amount, captured_at = '2026-05-01T23:59:59Z', check_at = NULL WHERE id = $1`,
		"OPEN CAPTURE_ONLY_HERE")
	twice, _ := b.confirmed()
	plant(twice, `UPDATE payments SET charge_id = 'another' WHERE id = $1`, "OPEN CAPTURE_ONLY_HERE", "OPEN CAPTURE_TWICE")
	other, _ := b.confirmed()
	plant(other, `UPDATE payments SET captured = captured - 1 WHERE id = $1`, "OPEN CAPTURE_AMOUNT")
	currency, _ := b.confirmed()
	plant(currency, `UPDATE payments SET currency = 'USD' WHERE id = $1`, "OPEN CAPTURE_AMOUNT")

	byHand, _ := b.paid(amount)
	b.provider.RefundManually(byHand.GetOrderId(), 100)
	plant(byHand, "", "OPEN REFUND_UNKNOWN")
	refunded := func() *paymentv1.PrepareResponse {
		p, _ := b.paid(30000, 25000)
		b.ask(p, payment.ByUser, newIdempotencyKey(), 0)
		b.untilRefund(p, "USER", "DONE")
		return p
	}
	again := refunded()
	b.provider.RefundAgain(again.GetOrderId(), b.refund(again, "USER").id, 100)
	plant(again, "", "OPEN REFUND_TWICE")
	failed := refunded()
	b.provider.SettleRefund(b.provider.RefundsOf(failed.GetOrderId())[0].RefundID, sandbox.RefundFailed)
	plant(failed, "", "OPEN REFUND_STATE")
	plant(refunded(), `UPDATE payments SET refunded = refunded - 1 WHERE id = $1`, "OPEN REFUND_SUM")
	plant(refunded(), `UPDATE refunds SET send = send - 1 WHERE payment_id = $1`, "OPEN REFUND_AMOUNT")
	paid, _ := b.paid(amount)
	b.exec(`INSERT INTO refunds (id, payment_id, cause, request, reason, amount, send, status, provider, provider_id, given_at, due_at, created_at)
		VALUES (gen_random_uuid(), $1, 'USER', '', '', 100, 100, 'DONE', 'sandbox', 're', '2026-05-01T00:00:01Z', now(), now())`,
		uuid.MustParse(paid.GetPaymentId()))
	plant(paid, `UPDATE payments SET refunded = 100 WHERE id = $1`, "OPEN REFUND_ONLY_HERE")
	return want
}

func TestReconcileNamesEachDifference(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mixed()
	want := b.planted()
	code, out := b.reconcile()
	require.Equal(t, 3, code)
	for order, kinds := range want {
		require.Equal(t, kinds, found(out, order), "order %s in\n%s", order, out)
	}
	require.Contains(t, out, "differences=13\n")
	for _, kind := range reconcile.Kinds {
		require.Contains(t, out, "OPEN "+string(kind)+" ")
	}
	rows := b.count(`SELECT count(*) FROM differences`)

	_, again := b.reconcile()
	require.Equal(t, out, again, "a run that is repeated")
	_, later := b.reconcile("--day", "2026-05-03")
	require.Equal(t, found(out, ""), found(later, ""))
	require.Contains(t, later, "differences=13\n", "what is open is looked at again, whatever the day")
	require.Equal(t, rows, b.count(`SELECT count(*) FROM differences WHERE status = 'OPEN'`))

	// The sweeper follows the hints; a later run closes what is gone.
	b.clock.Set(time.Now().Add(time.Hour))
	for range 5 {
		b.sweep(time.Second)
	}
	b.exec(`UPDATE payments SET currency = 'KRW', captured = amount, charge_id = CASE WHEN charge_id = 'another' THEN '' ELSE charge_id END WHERE captured > 0`)
	_, out = b.reconcile("--day", "2026-05-04")
	for order, kinds := range want {
		switch kinds[0] {
		case "OPEN CAPTURE_ONLY_THERE", "OPEN CAPTURE_AMOUNT", "OPEN REFUND_UNKNOWN", "OPEN REFUND_STATE":
			require.Equal(t, []string{"CLOSED " + strings.Fields(kinds[0])[1]}, found(out, order), out)
		}
	}
}

// What is still being settled is no difference until it has stayed so for a day.
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

// What moves while a run reads the two sides is no difference.
func TestReconcileLooksAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, _ := b.pending("lost-1")
	b.provider.Capture(p.GetOrderId(), amount)
	late, _ := b.pending("lost-1")
	store := &interrupted{Store: b.store(), between: func() {
		b.becomes(p, "CONFIRMED")
		b.exec(`UPDATE payments SET captured = amount, captured_at = '2026-05-01T12:00:00Z', charge_id = '', status = 'CONFIRMED' WHERE id = $1`,
			uuid.MustParse(late.GetPaymentId()))
	}}
	asked := &interruptedAsk{Provider: b.sandbox, orderID: late.GetOrderId(), after: func() {
		b.provider.Capture(late.GetOrderId(), amount)
		b.exec(`UPDATE payments SET version = version + 1 WHERE id = $1`, uuid.MustParse(late.GetPaymentId()))
	}}
	store.earlier = []reconcile.Difference{{OrderID: late.GetOrderId(), Kind: reconcile.CaptureOnlyHere}}
	source := reconcile.Source{Provider: asked, Lister: b.sandbox, Name: sandboxclient.Name}
	sum, err := reconcile.Run(t.Context(), store, store, source, testDay, func(f reconcile.Finding) error { return errors.New(f.String()) })
	require.NoError(t, err)
	require.Equal(t, reconcile.Summary{Provider: "sandbox", Day: testDay, Captures: 1, Looked: 2}, sum)
}

// interrupted acts between the comparison of the lists and the second look.
type interrupted struct {
	*postgres.Store

	between func()
	earlier []reconcile.Difference
}

func (s *interrupted) Unclosed(context.Context, string) ([]reconcile.Difference, error) {
	s.between()
	return s.earlier, nil
}

// interruptedAsk acts once, after the provider has answered about an order.
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

// Runs at the same time, and one after a run that died, leave the table that one run leaves.
func TestReconcileTwiceAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.mixed()
	b.planted()
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
	source := reconcile.Source{Provider: b.sandbox, Lister: b.sandbox, Name: sandboxclient.Name}
	_, err := reconcile.Run(t.Context(), b.store(), b.store(), source, testDay, func(reconcile.Finding) error { return died })
	require.ErrorIs(t, err, died)
	source.Lister = repeating{b.sandbox}
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

// repeating lists each entry twice, as a page may that is read while entries are added.
type repeating struct{ payment.Lister }

func (l repeating) List(ctx context.Context, from, to time.Time, cursor string) ([]payment.LedgerEntry, string, error) {
	entries, next, err := l.Lister.List(ctx, from, to, cursor)
	return append(entries, entries...), next, err
}

// A day of 10,000 captures is read in pages on both sides.
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
	b.exec(`INSERT INTO payments (id, order_id, payment_type, reference_id, user_id, event_id, amount, currency, provider, status, charge_id, captured,
			captured_at, expires_at)
		SELECT gen_random_uuid(), o, 'reservation', gen_random_uuid(), 'ann', 'e', $3, 'KRW', 'sandbox', 'CONFIRMED', c, $3, '2026-05-01T12:00:00Z', now()
		FROM unnest($1::text[], $2::text[]) AS x (o, c)`, orders, charges, amount)
	books := &paged{Store: b.store()}
	source := reconcile.Source{Provider: b.sandbox, Lister: b.sandbox, Name: sandboxclient.Name}
	sum, err := reconcile.Run(t.Context(), books, books, source, testDay, func(f reconcile.Finding) error { return errors.New(f.String()) })
	require.NoError(t, err)
	require.Equal(t, reconcile.Summary{Provider: "sandbox", Day: testDay, Captures: n}, sum)
	require.LessOrEqual(t, books.largest, 1000)
	require.Equal(t, 10, b.provider.Calls(paymenttest.Listings))

	b.exec(`DELETE FROM payments WHERE order_id = $1`, orders[0])
	b.exec(`UPDATE payments SET order_id = $2 WHERE order_id = $1`, orders[n-1], uuid.NewString())
	code, out := b.reconcile()
	require.Equal(t, 3, code)
	require.Contains(t, out, "differences=3\n", "two are unknown here, and one is missing there")
}

// paged keeps the largest number of orders that were read at once.
type paged struct {
	*postgres.Store

	largest int
}

func (p *paged) OfOrders(ctx context.Context, provider string, orders []string) (map[string]reconcile.Here, error) {
	p.largest = max(p.largest, len(orders))
	return p.Store.OfOrders(ctx, provider, orders)
}
