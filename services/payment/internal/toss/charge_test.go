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

func unknownOutcome(t *testing.T, err error) {
	t.Helper()
	require.Error(t, err)
	for _, known := range []error{payment.ErrChargeRejected, payment.ErrNotAdmitted, payment.ErrNotSent} {
		require.NotErrorIs(t, err, known)
	}
}

// While Toss does not accept the secret key, no charge is sent. A new key is used at once.
func TestSecretKeyIsReplaced(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	p := s.pay()
	s.client.Rekey("test_sk_old")
	_, err := s.client.Charge(t.Context(), p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotAdmitted)
	_, err = s.client.Ask(t.Context(), p)
	require.ErrorContains(t, err, "UNAUTHORIZED_KEY")
	for _, code := range []string{"INVALID_API_KEY", "INCORRECT_BASIC_AUTH_FORMAT"} {
		s.client.Rekey(secretKey)
		s.testCode = code
		_, err = s.client.Charge(t.Context(), s.pay(), payment.Outcome{})
		require.ErrorIs(t, err, payment.ErrNotAdmitted)
	}
	s.testCode = ""
	out, err := s.client.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	require.Equal(t, payment.Captured, out.State)
}

// After an answer without a known code or status the outcome is unknown, whatever the HTTP status.
func TestAnswersWithoutACode(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 204, 302, 400, 401, 403, 404, 409, 429, 500, 502, 503} {
		for _, body := range []string{"", "<html>", "{}", `{"message":"?"}`, `{"status":"NEW","orderId":"o"}`, "null", `[]`} {
			calls := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				calls++
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(status)
				if status != http.StatusNoContent {
					_, _ = w.Write([]byte(body))
				}
			}))
			client := toss.NewClient(secretKey, toss.Options{URL: server.URL})
			p := payment.Payment{OrderID: "o", PaymentKey: "k", Currency: "KRW"}
			_, err := client.Charge(t.Context(), p, payment.Outcome{})
			unknownOutcome(t, err)
			_, err = client.Ask(t.Context(), p)
			unknownOutcome(t, err)
			_, err = client.AskRefunds(t.Context(), p)
			require.Error(t, err)
			answer, err := client.Refund(t.Context(), payment.RefundCall{OrderID: "o", PaymentKey: "k", NotAfter: time.Now().Add(time.Hour)})
			require.Error(t, err)
			require.NotErrorIs(t, err, payment.ErrKeySpent)
			require.Zero(t, answer)
			require.Equal(t, 4, calls, "no redirect is followed")
			client.Close()
			server.Close()
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	client := toss.NewClient(secretKey, toss.Options{URL: server.URL})
	t.Cleanup(client.Close)
	_, err := client.Charge(t.Context(), payment.Payment{}, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotSent)
}

// A confirmation without an answer is repeated under the same key, and takes effect once.
func TestConfirmationIsRepeated(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes.Fault{fakes.Lost, fakes.Dropped, fakes.Garbled} {
		s := newShop(t, fake.Options{})
		p := s.pay()
		s.toss.Inject(fake.Confirms, fault)
		_, err := s.client.Charge(t.Context(), p, payment.Outcome{})
		unknownOutcome(t, err)
		want := payment.Absent
		if fault == fakes.Lost {
			want = payment.Captured
		}
		require.Equal(t, want, s.ask(p).State)
		out, err := s.client.Charge(t.Context(), p, payment.Outcome{})
		require.NoError(t, err)
		require.Equal(t, payment.Captured, out.State)
		require.Len(t, s.toss.Of(p.OrderID), 1)
	}
}

// A look-up by order may return the payment of another tab, which is not the charged payment.
func TestOtherTab(t *testing.T) {
	t.Parallel()
	for _, other := range []string{"", "pay", "decline"} {
		s := newShop(t, fake.Options{Rules: fake.Rules{ShowsUnapproved: true}})
		p := s.pay()
		s.choose(p, other)
		require.Equal(t, payment.Absent, s.ask(p).State)
		s.clock.Advance(31 * time.Minute)
		require.Equal(t, payment.Absent, s.ask(p).State, "the other one has expired")
	}
	s := newShop(t, fake.Options{})
	p := s.charged()
	s.choose(p, "pay")
	require.Equal(t, payment.Captured, s.ask(p).State)
}

func TestStatuses(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{Rules: fake.Rules{ShowsUnapproved: true}})
	open := s.pay()
	open.PaymentKey = ""
	require.Equal(t, payment.Authorized, s.ask(open).State)
	require.Equal(t, s.toss.Of(open.OrderID)[0].PaymentKey, s.ask(open).Key)
	s.clock.Advance(10 * time.Minute)
	require.Equal(t, payment.Void, s.ask(open).State)

	declined := s.pay()
	declined.PaymentKey = s.choose(declined, "decline")
	_, err := s.client.Charge(t.Context(), declined, payment.Outcome{})
	require.NoError(t, err)
	require.Equal(t, payment.Outcome{State: payment.Refused, ChargeID: declined.PaymentKey, DeclineCode: "REJECT_CARD_PAYMENT"}, s.ask(declined))

	ready := s.pay()
	ready.OrderID, ready.PaymentKey = "order-ready", ""
	s.choose(ready, "")
	require.Equal(t, payment.Waiting, s.ask(ready).State)
	s.choose(ready, "back")
	require.Equal(t, payment.Waiting, s.ask(ready).State)
	s.clock.Advance(30 * time.Minute)
	require.Equal(t, payment.Void, s.ask(ready).State)
}

// A charge of another order, or in another currency, does not count for the payment.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	for _, body := range []string{
		`{"orderId":"other","status":"DONE","currency":"KRW","totalAmount":1,"balanceAmount":1}`,
		`{"orderId":"o","status":"DONE","currency":"USD","totalAmount":1,"balanceAmount":1}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		t.Cleanup(server.Close)
		client := toss.NewClient(secretKey, toss.Options{URL: server.URL})
		t.Cleanup(client.Close)
		p := payment.Payment{OrderID: "o", Amount: 1, Currency: "KRW"}
		_, err := client.Charge(t.Context(), p, payment.Outcome{})
		unknownOutcome(t, err)
		_, err = client.Ask(t.Context(), p)
		require.Error(t, err)
	}
}

// A payment that waits for a deposit is pending: the deposit may still come.
func TestDeposit(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write([]byte(`{"orderId":"o","paymentKey":"k","status":"WAITING_FOR_DEPOSIT"}`))
	}))
	t.Cleanup(server.Close)
	client := toss.NewClient(secretKey, toss.Options{URL: server.URL})
	t.Cleanup(client.Close)
	out, err := client.Charge(t.Context(), payment.Payment{OrderID: "o", PaymentKey: "k", Currency: "KRW"}, payment.Outcome{})
	require.NoError(t, err)
	require.Equal(t, payment.Pending, out.State)
}

// Cancel only looks the payment up. It cancels nothing at Toss, whatever the state.
func TestCancelNeverRefunds(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{Rules: fake.Rules{ShowsUnapproved: true}})
	cancel := func(p payment.Payment) payment.State {
		out, err := s.client.Cancel(t.Context(), p)
		require.NoError(t, err)
		return out.State
	}
	paid, open := s.charged(), s.pay()
	require.Equal(t, payment.Captured, cancel(paid))
	require.Equal(t, payment.NotPossible, cancel(open))
	require.Equal(t, payment.NotPossible, cancel(payment.Payment{OrderID: "unknown"}))
	s.clock.Advance(10 * time.Minute)
	require.Equal(t, payment.Void, cancel(open))
	require.Zero(t, s.toss.Count(fake.Cancels))
	s.toss.Inject(fake.Lookups, fakes.Garbled)
	_, err := s.client.Cancel(t.Context(), open)
	require.Error(t, err)
}
