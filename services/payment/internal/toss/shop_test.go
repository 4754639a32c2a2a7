package toss_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	fake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/toss"
)

const (
	amount    = int64(55000)
	secretKey = "test_sk_0123456789"
	clientKey = "test_ck_0123456789"
	backURL   = "https://shop.test/api/v1/payments/return/toss"
)

// shop is a client of a fake of Toss.
type shop struct {
	t      *testing.T
	clock  *testkit.Clock
	toss   *fake.Server
	client *toss.Client
	url    string
	// testCode is the error code that Toss is asked to answer with; empty: none.
	testCode string
	// wholeOnly says that only the whole of a payment can be refunded.
	wholeOnly bool
}

func newShop(t *testing.T, opts fake.Options) *shop {
	t.Helper()
	s := &shop{t: t, clock: testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)), wholeOnly: opts.WholeOnly}
	opts.Now, opts.ClientKey, opts.SecretKey = s.clock.Now, clientKey, secretKey
	s.toss = fake.NewServer(opts)
	server := httptest.NewServer(s.toss)
	t.Cleanup(server.Close)
	s.url = server.URL
	s.client = toss.NewClient(secretKey, toss.Options{URL: server.URL, PageURL: "https://pay.test/toss", Now: s.clock.Now, Transport: s})
	t.Cleanup(s.client.Close)
	return s
}

// RoundTrip sends each request on a new connection: a transport repeats a request that gets no
// answer on a kept-alive one.
func (s *shop) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Close = true
	if s.testCode != "" {
		r.Header.Set("TossPayments-Test-Code", s.testCode)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// pay returns a new payment, whose buyer has paid on a page.
func (s *shop) pay() payment.Payment {
	s.t.Helper()
	return s.payFor(payment.Payment{OrderID: uuid.NewString(), Amount: amount, Currency: "KRW", Token: "secret", EventID: "demo"})
}

// payFor pays for the order of a payment again, on another page.
func (s *shop) payFor(p payment.Payment) payment.Payment {
	s.t.Helper()
	p.ID, p.PaymentKey = uuid.New(), s.choose(p, "pay")
	return p
}

// choose opens a page for a payment, makes a choice on it, and returns the PaymentKey of the page.
func (s *shop) choose(p payment.Payment, choice string) (paymentKey string) {
	s.t.Helper()
	returnURL := backURL + "?" + url.Values{"order": {p.OrderID}, "token": {p.Token}}.Encode()
	q := fake.Request{
		ClientKey: clientKey, Method: "CARD", OrderID: p.OrderID, OrderName: "tickets", SuccessURL: returnURL, FailURL: returnURL, WindowTarget: "self",
	}
	q.Amount.Currency, q.Amount.Value = p.Currency, p.Amount
	opened, code := s.toss.Open(q)
	require.Empty(s.t, code)
	if choice != "" {
		_, ok := s.toss.Choose(opened.PaymentKey, choice)
		require.True(s.t, ok)
	}
	return opened.PaymentKey
}

// receiptOf returns the address of the receipt of a charged payment.
func receiptOf(p payment.Payment) string {
	return "https://dashboard.tosspayments.com/receipt/redirection?transactionId=" + p.PaymentKey + "&ref=PX"
}

// charged returns a payment that is confirmed.
func (s *shop) charged() payment.Payment {
	s.t.Helper()
	p := s.pay()
	out, err := s.client.Charge(s.t.Context(), p, payment.Outcome{})
	require.NoError(s.t, err)
	require.Equal(s.t, payment.Outcome{
		State: payment.Captured, ChargeID: p.PaymentKey, Amount: amount, ReceiptURL: receiptOf(p), WholeOnly: s.wholeOnly,
	}, out)
	return p
}

func (s *shop) ask(p payment.Payment) payment.Outcome {
	s.t.Helper()
	out, err := s.client.Ask(s.t.Context(), p)
	require.NoError(s.t, err)
	return out
}
