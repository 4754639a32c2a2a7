package rpc_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/faults"
	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/app"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/reconcile"
	sandboxclient "urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/toss"
	"urr.guru/services/payment/sandbox"
)

// account is a provider's account, with a payment service. Its functions change the account only:
// the service learns of that when it asks the provider.
type account struct {
	*bundle

	name   string
	config func(*app.Config)
	// pay returns a payment that was charged, decline one that was declined.
	pay, decline func() *paymentv1.PrepareResponse
	// charge charges an order that has no charge. again charges a payment a second time, and returns
	// the statuses and kinds of the differences that must be found then.
	charge func(order string, amount int64)
	again  func(p *paymentv1.PrepareResponse) (kinds []string)
	// refundByHand refunds a part without an id, refundAgain with the id of an earlier refund.
	refundByHand func(order string, amount int64)
	refundAgain  func(order, refund string, amount int64)
	// failRefund makes the latest refund of an order fail. With pend, later refunds are accepted, but
	// not done. Both are nil for a provider whose refunds are done at once.
	failRefund func(order string)
	pend       func(bool)
}

func accounts() map[string]func(*testing.T) *account {
	return map[string]func(*testing.T) *account{
		sandboxclient.Name: func(t *testing.T) *account { t.Helper(); return accountOf(setup(t)) },
		stripe.Name:        func(t *testing.T) *account { t.Helper(); return setupStripe(t).account() },
		toss.Name:          func(t *testing.T) *account { t.Helper(); return setupToss(t).account() },
	}
}

// accountOf returns the account at the sandbox provider.
func accountOf(b *bundle) *account {
	a := &account{
		bundle: b, name: sandboxclient.Name, refundByHand: b.provider.RefundManually, refundAgain: b.provider.RefundAgain, charge: b.provider.Capture,
		config: func(cfg *app.Config) { cfg.SandboxURL, cfg.ProviderTimeout = b.server.URL, noTimeout },
		pay:    func() *paymentv1.PrepareResponse { p, _ := b.confirmed(); return p },
	}
	a.decline = func() *paymentv1.PrepareResponse {
		p, _ := b.prepared()
		_, err := b.confirm(p, "decline-1", newIdempotencyKey())
		require.NoError(b.t, err)
		return p
	}
	a.again = func(p *paymentv1.PrepareResponse) []string { // the sandbox charges only once
		b.exec(`UPDATE payments SET charge_id = 'another' WHERE id = $1`, uuid.MustParse(p.GetPaymentId()))
		return []string{"OPEN CAPTURE_ONLY_HERE", "OPEN CAPTURE_TWICE"}
	}
	a.failRefund = func(order string) {
		b.provider.SettleRefund(b.provider.RefundsOf(order)[0].RefundID, sandbox.RefundFailed)
	}
	a.pend = func(on bool) {
		b.provider.SetFaults(map[bool]sandbox.Faults{true: {Pending: 1, SettleFor: faults.Duration(time.Hour)}}[on])
	}
	return a
}

func (s *stripeShop) account() *account {
	return &account{
		bundle: s.bundle, name: stripe.Name, pay: s.charged,
		config: func(cfg *app.Config) { cfg.StripeURL, cfg.StripeSecretKey = s.url, "sk_test_1" },
		decline: func() *paymentv1.PrepareResponse {
			s.stripe.SetRules(fake.Rules{Decline: "insufficient_funds"})
			defer s.stripe.SetRules(fake.Rules{})
			p, _ := s.prepared()
			s.comeBack(s.choose(p, fake.Pay))
			s.becomes(p, "DECLINED")
			return p
		},
		charge: func(order string, amount int64) { s.stripe.Charge(order, "krw", amount) },
		again: func(p *paymentv1.PrepareResponse) []string {
			s.stripe.Charge(p.GetOrderId(), "krw", p.GetAmount())
			return []string{"OPEN CAPTURE_TWICE"}
		},
		refundByHand: func(order string, amount int64) { require.NoError(s.t, s.stripe.RefundByHand(order, amount)) },
		refundAgain: func(order, refund string, amount int64) {
			require.NoError(s.t, s.stripe.RefundWith(order, amount, map[string]string{"urr_refund": refund}))
		},
		failRefund: func(order string) {
			require.NoError(s.t, s.stripe.SettleRefund(s.stripe.Order(order).Refunds[0].ID, "failed"))
		},
		pend: func(on bool) { s.stripe.SetRules(fake.Rules{PendingRefunds: on}) },
	}
}

func (s *tossShop) account() *account {
	again := func(order string, amount int64) {
		s.t.Helper()
		page := "https://pay.test/toss#" + url.Values{"order": {order}, "token": {"t"}}.Encode()
		require.Empty(s.t, s.toss.Confirm(s.chooseOn(page, amount, "pay")["paymentKey"]))
	}
	key := func(order string) string { return s.toss.Of(order)[0].PaymentKey }
	return &account{
		bundle: s.bundle, name: toss.Name, charge: again,
		config: func(cfg *app.Config) { cfg.TossURL, cfg.TossSecretKey = s.url, "test_sk" },
		pay:    func() *paymentv1.PrepareResponse { p, _ := s.returned(); s.becomes(p, "CONFIRMED"); return p },
		decline: func() *paymentv1.PrepareResponse {
			p, _ := s.prepared()
			_, err := s.comeBack(s.choose(p, "decline"))
			require.NoError(s.t, err)
			s.becomes(p, "DECLINED")
			return p
		},
		again: func(p *paymentv1.PrepareResponse) []string {
			again(p.GetOrderId(), p.GetAmount())
			return []string{"OPEN CAPTURE_TWICE"}
		},
		refundByHand: func(order string, amount int64) { require.Empty(s.t, s.toss.GiveBack(key(order), amount)) },
		refundAgain: func(order, refund string, amount int64) {
			require.Empty(s.t, s.toss.GiveBackFor(key(order), amount, refund+" again"))
		},
	}
}

// reconcile runs the command for the day of the test's clock, and returns its exit code and output.
func (a *account) reconcile(args ...string) (code int, out string) {
	a.t.Helper()
	cfg := &app.Config{
		Providers: []string{a.name}, StripePerSecond: 1e4, StripeEndpointPerSecond: 1e4, TossPerSecond: 1e4, ChargesAtOnce: 1,
		Postgres: pkgpostgres.Config{URL: config.Secret(a.pool.Config().ConnString())}, Sandbox: "development",
	}
	a.config(cfg)
	var text bytes.Buffer
	err := app.Reconcile(app.WithProviders).Run(a.t.Context(), cfg, append([]string{"--day", "2026-05-01"}, args...), &text)
	var exit *lifecycle.Exit
	if errors.As(err, &exit) {
		a.t.Log(exit)
		return exit.Code, text.String()
	}
	require.NoError(a.t, err)
	return 0, text.String()
}

func (b *bundle) reconcile(args ...string) (code int, out string) {
	b.t.Helper()
	return accountOf(b).reconcile(args...)
}

// found returns the statuses and kinds of an order's differences in the command's output.
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

// sold returns a charged payment, with a ticket for each price.
func (a *account) sold(prices ...int64) *paymentv1.PrepareResponse {
	a.t.Helper()
	p := a.pay()
	a.issue(p, prices...)
	return p
}

// mixed makes payments and refunds of all kinds. Service and provider agree on them.
func (a *account) mixed() {
	a.t.Helper()
	a.prepared()
	a.decline()
	a.pay()
	part := a.sold(30000, 25000)
	a.ask(part, payment.ByUser, "part", 0)
	whole := a.sold(amount)
	a.ask(whole, payment.ByOperator, "whole")
	a.untilRefund(part, "USER", "DONE")
	a.untilRefund(whole, "OPERATOR", "DONE")
	if a.pend != nil {
		accepted := a.sold(amount)
		a.pend(true)
		a.ask(accepted, payment.ByOperator, "accepted")
		a.untilRefund(accepted, "OPERATOR", "ACCEPTED")
		a.pend(false)
	}
	byHand := a.sold(amount)
	a.refundByHand(byHand.GetOrderId(), 100)
	require.NoError(a.t, a.store().Hint(a.t.Context(), byHand.GetOrderId(), true))
	a.untilRefund(byHand, "BY_HAND", "DONE")
	a.charge("of-another-shop", 1)
}

// planted makes a difference of each kind. It returns the kinds that must be found, by order.
func (a *account) planted() map[string][]string {
	a.t.Helper()
	want := map[string][]string{}
	plant := func(p *paymentv1.PrepareResponse, sql string, kinds ...string) {
		if sql != "" {
			a.exec(sql, uuid.MustParse(p.GetPaymentId()))
		}
		want[p.GetOrderId()] = kinds
	}
	unknown := uuid.NewString()
	a.charge(unknown, 1000)
	want[unknown] = []string{"OPEN CAPTURE_UNKNOWN"}
	declined := a.decline()
	a.charge(declined.GetOrderId(), amount)
	plant(declined, "", "OPEN CAPTURE_ONLY_THERE")
	missing, _ := a.prepared()
	plant(missing, `UPDATE payments SET status = 'CONFIRMED', captured = amount, captured_at = '2026-05-01T23:59:59Z', check_at = NULL WHERE id = $1`,
		"OPEN CAPTURE_ONLY_HERE")
	twice := a.pay()
	plant(twice, "", a.again(twice)...)
	plant(a.pay(), `UPDATE payments SET captured = captured - 1 WHERE id = $1`, "OPEN CAPTURE_AMOUNT")
	plant(a.pay(), `UPDATE payments SET currency = 'USD' WHERE id = $1`, "OPEN CAPTURE_AMOUNT")

	byHand := a.sold(amount)
	a.refundByHand(byHand.GetOrderId(), 100)
	plant(byHand, "", "OPEN REFUND_UNKNOWN")
	refunded := func() *paymentv1.PrepareResponse {
		p := a.sold(30000, 25000)
		a.ask(p, payment.ByUser, newIdempotencyKey(), 0)
		a.untilRefund(p, "USER", "DONE")
		return p
	}
	again := refunded()
	a.refundAgain(again.GetOrderId(), a.refund(again, "USER").id, 100)
	plant(again, "", "OPEN REFUND_TWICE")
	failed := refunded()
	if a.failRefund != nil {
		a.failRefund(failed.GetOrderId())
		plant(failed, "", "OPEN REFUND_STATE")
	} else {
		plant(failed, `UPDATE refunds SET status = 'HELD' WHERE payment_id = $1`, "OPEN REFUND_STATE")
	}
	plant(refunded(), `UPDATE payments SET refunded = refunded - 1 WHERE id = $1`, "OPEN REFUND_SUM")
	plant(refunded(), `UPDATE refunds SET send = send - 1 WHERE payment_id = $1`, "OPEN REFUND_AMOUNT")
	paid := a.sold(amount)
	a.exec(`INSERT INTO refunds (id, payment_id, cause, request, reason, amount, send, status, provider, provider_id, given_at, due_at, created_at)
		VALUES (gen_random_uuid(), $1, 'USER', '', '', 100, 100, 'DONE', $2, 're', '2026-05-01T00:00:01Z', now(), now())`,
		uuid.MustParse(paid.GetPaymentId()), a.name)
	plant(paid, `UPDATE payments SET refunded = 100 WHERE id = $1`, "OPEN REFUND_ONLY_HERE")
	return want
}

// If the service and the provider agree on a day, no difference is found.
func TestReconcileAgrees(t *testing.T) {
	t.Parallel()
	for name, open := range accounts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := open(t)
			a.mixed()
			code, out := a.reconcile()
			require.Zero(t, code, out)
			require.Contains(t, out, " foreign=1 compared=0 watched=0 gone=0 differences=0\n")
		})
	}
}

func TestReconcileNamesEachDifference(t *testing.T) {
	t.Parallel()
	for name, open := range accounts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			namesEachDifference(t, open(t))
		})
	}
}

func namesEachDifference(t *testing.T, a *account) {
	t.Helper()
	a.mixed()
	want := a.planted()
	code, out := a.reconcile()
	require.Equal(t, 3, code)
	n := 0
	for order, kinds := range want {
		require.Equal(t, kinds, found(out, order), "order %s in\n%s", order, out)
		n += len(kinds)
	}
	require.Contains(t, out, fmt.Sprintf("differences=%d\n", n))
	for _, kind := range reconcile.Kinds {
		if kind == reconcile.CaptureUnserved { // TestReconcileNamesCapturesOfNoProvider
			continue
		}
		require.Contains(t, out, "OPEN "+string(kind)+" ")
	}
	rows := a.count(`SELECT count(*) FROM differences`)

	_, again := a.reconcile()
	require.Equal(t, out, again, "a run that is repeated")
	_, later := a.reconcile("--day", "2026-05-03")
	require.Equal(t, found(out, ""), found(later, ""))
	require.Contains(t, later, fmt.Sprintf("differences=%d\n", n), "what is open is looked at again, whatever the day")
	require.Equal(t, rows, a.count(`SELECT count(*) FROM differences WHERE status = 'OPEN'`))

	// The sweeper asks the provider after the hints. A later run closes the differences that are gone.
	a.clock.Set(time.Now().Add(time.Hour))
	for range 5 {
		a.sweep(time.Second)
	}
	a.exec(`UPDATE payments SET currency = 'KRW', captured = amount, charge_id = CASE WHEN charge_id = 'another' THEN '' ELSE charge_id END WHERE captured > 0`)
	_, out = a.reconcile("--day", "2026-05-04")
	for order, kinds := range want {
		switch kinds[0] {
		case "OPEN CAPTURE_ONLY_THERE":
			if a.name == stripe.Name { // a charge outside the page is left to an operator
				require.Equal(t, kinds, found(out, order), out)
				continue
			}
		case "OPEN REFUND_STATE":
			if a.failRefund == nil {
				continue
			}
		case "OPEN CAPTURE_AMOUNT", "OPEN REFUND_UNKNOWN":
		default:
			continue
		}
		require.Equal(t, []string{"CLOSED " + strings.Fields(kinds[0])[1]}, found(out, order), out)
	}
}
