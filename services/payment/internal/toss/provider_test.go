package toss_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/testkit"
	fake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/toss"
)

// testCode is a transport whose calls ask Toss to answer with this error code.
type testCode struct{ code string }

func (a testCode) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("TossPayments-Test-Code", a.code)
	return http.DefaultTransport.RoundTrip(r)
}

// check tests what the payment service expects of Toss. client makes a client with a key. pay pays
// for a payment and returns its PaymentKey; nil: nobody can pay.
func check(
	t *testing.T, client func(key config.Secret, opts toss.Options) *toss.Client, now func() time.Time, key config.Secret, pay func(payment.Payment) string,
) {
	t.Helper()
	ctx := t.Context()
	c := client(key, toss.Options{})
	p := payment.Payment{ID: uuid.New(), OrderID: uuid.NewString(), PaymentKey: "unknown", Amount: amount, Currency: "KRW"}
	expect := func(want payment.State, call func(context.Context, payment.Payment) (payment.Outcome, error)) payment.Outcome {
		t.Helper()
		out, err := call(ctx, p)
		require.NoError(t, err)
		require.Equal(t, want, out.State)
		return out
	}
	charge := func(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
		return c.Charge(ctx, p, payment.Outcome{})
	}
	expect(payment.Absent, c.Ask)
	expect(payment.NotPossible, c.Cancel)
	_, err := c.Charge(ctx, p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrChargeRejected)
	p.ID = uuid.New() // another idempotency key
	_, err = client("test_sk_that-is-none", toss.Options{}).Charge(ctx, p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotAdmitted)
	p.ID = uuid.New()
	out, err := client(key, toss.Options{Transport: testCode{"REJECT_CARD_PAYMENT"}}).Charge(ctx, p, payment.Outcome{})
	require.NoError(t, err)
	require.Equal(t, payment.Refused, out.State)
	if pay == nil {
		return
	}
	p.ID, p.PaymentKey = uuid.New(), pay(p)
	before, err := c.Ask(ctx, p)
	require.NoError(t, err)
	t.Logf("a look-up of a payment that is not confirmed says state %d", before.State)
	out = expect(payment.Captured, charge)
	require.Equal(t, amount, out.Amount)
	require.Equal(t, out, expect(payment.Captured, charge), "the same key")
	require.Equal(t, out, expect(payment.Captured, c.Cancel))
	call := payment.RefundCall{
		OrderID: p.OrderID, PaymentKey: p.PaymentKey, RefundID: uuid.New(), Key: uuid.NewString() + "#1", Amount: 20000, NotAfter: time.Now().Add(time.Hour),
	}
	for range 2 {
		answer, err := c.Refund(ctx, call)
		require.NoError(t, err)
		require.Equal(t, payment.ProviderDone, answer.State)
	}
	report, err := c.AskRefunds(ctx, p)
	require.NoError(t, err)
	require.Equal(t, amount-20000, report.RefundableAmount())
	require.Equal(t, call.RefundID, report.Refunds[0].RefundID)
	entries, _ := listAll(t, c, now().Add(-time.Hour), now().Add(time.Hour))
	for _, id := range []string{out.ChargeID, report.Refunds[0].ID} {
		require.True(t, slices.ContainsFunc(entries, func(e payment.LedgerEntry) bool { return e.ID == id && e.OrderID == p.OrderID }), id)
	}
	call.Key, call.RefundID, call.Amount = uuid.NewString()+"#1", uuid.New(), amount
	answer, err := c.Refund(ctx, call)
	require.NoError(t, err)
	require.Equal(t, payment.ProviderTooMuch, answer.State)
	require.EqualValues(t, 20000, expect(payment.Captured, c.Ask).Refunded)
}

func TestProviderFake(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	client := func(key config.Secret, opts toss.Options) *toss.Client {
		opts.URL = s.url
		c := toss.NewClient(key, opts)
		t.Cleanup(c.Close)
		return c
	}
	check(t, client, s.clock.Now, secretKey, func(p payment.Payment) string { return s.choose(p, "pay") })
}

// With a secret key of Toss's test mode the same tests run there. A person must pay on the page.
// Without TOSS_TEST_CLIENT_KEY the steps after a payment are left out.
func TestProviderReal(t *testing.T) {
	t.Parallel()
	key := os.Getenv("TOSS_TEST_KEY")
	if key == "" {
		t.Skip("TOSS_TEST_KEY is not set: this did not run against Toss Payments")
	}
	require.Regexp(t, "^test_", key, "only a key of the test mode")
	client := func(key config.Secret, opts toss.Options) *toss.Client {
		c := toss.NewClient(key, opts)
		t.Cleanup(c.Close)
		return c
	}
	var pay func(payment.Payment) string
	if public := os.Getenv("TOSS_TEST_CLIENT_KEY"); public != "" {
		pay = func(p payment.Payment) string { return payByHand(t, public, p) }
	}
	check(t, client, time.Now, config.Secret(key), pay)
}

// payByHand serves a page that opens the vendor's page, and waits until a person has paid there.
func payByHand(t *testing.T, clientKey string, p payment.Payment) (paymentKey string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	paid := make(chan string, 1)
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if key := r.URL.Query().Get("paymentKey"); key != "" {
			paid <- key
			return
		}
		_, _ = fmt.Fprintf(w, `<!doctype html><script src="https://js.tosspayments.com/v2/standard"></script><script>
			TossPayments(%q).payment({customerKey: TossPayments.ANONYMOUS}).requestPayment({method: "CARD", windowTarget: "self",
			amount: {currency: "KRW", value: %d}, orderId: %q, orderName: "test", successUrl: location.origin + "/", failUrl: location.origin + "/failed"})
			</script>`, clientKey, p.Amount, p.OrderID)
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	t.Logf("pay at http://%s/", listener.Addr())
	return testkit.Receive(t, paid, "somebody has paid")
}
