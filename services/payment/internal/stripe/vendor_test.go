package stripe_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/stripe"
)

// check tests what the payment service expects of Stripe. pay pays on a page.
func check(t *testing.T, c *stripe.Client, now func() time.Time, pay func(page string)) {
	t.Helper()
	ctx := t.Context()
	open := func() (payment.Payment, string) {
		t.Helper()
		id := uuid.New()
		p := payment.Payment{
			ID: id, OrderID: id.String(), Amount: amount, Currency: "KRW", Description: title, StatementSuffix: "AUTUMN", Email: "ann@shop.test", Token: "t", Attempt: 1, ExpiresAt: now().Add(7 * time.Minute),
		}
		page, err := c.Open(ctx, p)
		require.NoError(t, err)
		again, err := c.Open(ctx, p)
		require.NoError(t, err)
		require.Equal(t, page, again)
		p.Ref = page.Ref
		return p, page.URL
	}
	expect := func(want payment.State, call func(context.Context, payment.Payment) (payment.Outcome, error), p payment.Payment) payment.Outcome {
		t.Helper()
		out, err := call(ctx, p)
		require.NoError(t, err)
		require.Equal(t, want, out.State)
		return out
	}
	charge := func(ctx context.Context, p payment.Payment) (payment.Outcome, error) {
		return c.Charge(ctx, p, payment.Outcome{})
	}
	p, _ := open()
	expect(payment.Waiting, c.Ask, p)
	_, err := c.Charge(ctx, p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotSent)
	expect(payment.Void, c.Cancel, p)
	expect(payment.Void, c.Cancel, p)
	expect(payment.Void, c.Ask, p)
	if pay == nil {
		return
	}
	p, page := open()
	pay(page)
	expect(payment.Authorized, c.Ask, p)
	expect(payment.Void, c.Cancel, p)
	expect(payment.Void, charge, p)

	p, page = open()
	pay(page)
	out := expect(payment.Captured, charge, p)
	require.Equal(t, out, expect(payment.Captured, charge, p))
	require.Equal(t, out, expect(payment.Captured, c.Cancel, p))
	require.Equal(t, amount, out.Amount)
	call := payment.RefundCall{
		OrderID: p.OrderID, Currency: p.Currency, ChargeID: out.ChargeID, RefundID: uuid.New(), Key: uuid.NewString(), Amount: 20000, NotAfter: now().Add(time.Minute),
	}
	answer, err := c.Refund(ctx, call)
	require.NoError(t, err)
	again, err := c.Refund(ctx, call)
	require.NoError(t, err)
	require.Equal(t, answer, again)
	p.ChargeID = out.ChargeID
	report, err := c.AskRefunds(ctx, p)
	require.NoError(t, err)
	require.Equal(t, amount-20000, report.RefundableAmount())
	require.Equal(t, call.RefundID, report.Refunds[0].RefundID)
	entries := listAll(ctx, t, c, now().Add(-time.Hour), now().Add(time.Hour))
	for _, id := range []string{out.ChargeID, answer.ID} {
		require.True(t, slices.ContainsFunc(entries, func(e payment.LedgerEntry) bool { return e.ID == id && e.OrderID == p.OrderID }), id)
	}
	call.Key, call.RefundID, call.Amount = uuid.NewString(), uuid.New(), amount
	answer, err = c.Refund(ctx, call)
	require.NoError(t, err)
	require.Equal(t, payment.ProviderTooMuch, answer.State)
	require.EqualValues(t, 20000, expect(payment.Captured, c.Ask, p).Refunded)
}

// stripe-mock checks the form of every request against Stripe's published OpenAPI description. It
// keeps no state, so the fake gives the answers.
func TestVendorShapes(t *testing.T) {
	t.Parallel()
	program := os.Getenv("URR_TEST_STRIPE_MOCK")
	if program == "" {
		t.Skip("URR_TEST_STRIPE_MOCK names no stripe-mock: make provider-check and make test build it")
	}
	socket := filepath.Join(t.TempDir(), "mock")
	mock := exec.CommandContext(t.Context(), program, "-http-unix", socket)
	mock.Stderr = t.Output()
	require.NoError(t, mock.Start())
	t.Cleanup(func() { _ = mock.Process.Kill(); _ = mock.Wait() })
	testkit.Until(t, func() bool {
		_, err := os.Stat(socket)
		return err == nil
	}, "stripe-mock listens")
	b := newShop(t)
	both := &shapes{t: t, mock: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	c := stripe.NewClient(secrets(apiKey), stripe.Options{URL: b.url, ReturnURL: "https://shop/back", Now: b.clock.Now, Transport: both})
	t.Cleanup(c.Close)
	check(t, c, b.clock.Now, func(page string) { b.choose(page, fake.Pay) })
	p := b.captured()
	require.NoError(t, b.fake.Dispute(p.OrderID, ""))
	report, err := c.AskRefunds(t.Context(), p)
	require.NoError(t, err)
	require.True(t, report.Disputed)
	require.Greater(t, both.accepted, 20)

	wrong, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://mock/v1/refunds", strings.NewReader("payment_intents=pi_1"))
	require.NoError(t, err)
	wrong.Header.Set("Authorization", "Bearer "+apiKey)
	wrong.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := both.mock.RoundTrip(wrong)
	require.NoError(t, err)
	require.NoError(t, resp.Body.Close())
	require.Equal(t, http.StatusBadRequest, resp.StatusCode, "it does check")
}

// shapes sends every request to stripe-mock first, which must accept it.
type shapes struct {
	t    *testing.T
	mock http.RoundTripper

	mu       sync.Mutex
	accepted int
}

func (s *shapes) RoundTrip(r *http.Request) (*http.Response, error) {
	body := []byte{}
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
	}
	shape := r.Clone(r.Context())
	shape.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := s.mock.RoundTrip(shape)
	require.NoError(s.t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	require.Equal(s.t, http.StatusOK, resp.StatusCode, "%s %s: %s", r.Method, r.URL.Path, answer)
	s.mu.Lock()
	s.accepted++
	s.mu.Unlock()
	r.Body = io.NopCloser(bytes.NewReader(body))
	return http.DefaultTransport.RoundTrip(r)
}

// With a key of Stripe's test mode the same tests run there. A person must pay on the page. Without
// STRIPE_TEST_PAY=1 the steps after a payment are left out.
func TestVendorReal(t *testing.T) {
	t.Parallel()
	key := os.Getenv("STRIPE_TEST_KEY")
	if key == "" {
		t.Skip("STRIPE_TEST_KEY is not set: this did not run against Stripe")
	}
	require.Regexp(t, "^(sk|rk)_test_", key, "only a key of the test mode")
	returnServer := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(returnServer.Close)
	c := stripe.NewClient(secrets(key), stripe.Options{ReturnURL: returnServer.URL})
	t.Cleanup(c.Close)
	var pay func(string)
	if os.Getenv("STRIPE_TEST_PAY") == "1" {
		pay = func(page string) {
			paid := make(chan struct{})
			returnServer.Config.Handler = http.HandlerFunc(func(http.ResponseWriter, *http.Request) { close(paid) })
			t.Logf("pay with the card 4242 4242 4242 4242: %s", page)
			testkit.Receive(t, paid, "somebody has paid")
		}
	}
	check(t, c, time.Now, pay)
}
