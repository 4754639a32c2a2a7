package stripe_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
)

// What the buyer does on the page, and time, decide the outcome of the session.
func TestOutcomes(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p, page := b.opened()
	b.asks(payment.Payment{OrderID: p.OrderID}, payment.Absent)
	b.asks(p, payment.Waiting)
	b.choose(page, fake.Decline)
	b.asks(p, payment.Waiting)
	require.Equal(t, "https://shop/back?orderId="+p.OrderID+"&token=t-1", b.choose(page, fake.Back))
	b.asks(p, payment.Waiting)
	require.Equal(t, "https://shop/back?orderId="+p.OrderID+"&token=t-1", b.choose(page, fake.Pay))
	b.asks(p, payment.Authorized)
	require.Empty(t, b.choose(page, fake.Pay), "it was paid already")
	out, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	require.Regexp(t, "^https://pay.stripe.com/receipts/payment/ch_", out.ReceiptURL)
	require.Equal(t, payment.Outcome{State: payment.Captured, ChargeID: b.fake.Order(p.OrderID).Intent, Amount: amount, ReceiptURL: out.ReceiptURL}, out)
	require.Equal(t, out, b.asks(p, payment.Captured))
	require.NoError(t, b.fake.RefundByHand(p.OrderID, 5000))
	require.EqualValues(t, 5000, b.asks(p, payment.Captured).Refunded)

	lapsed := b.authorized()
	b.clock.Advance(7 * 24 * time.Hour)
	b.asks(lapsed, payment.Void)
	abandoned, page := b.opened()
	b.clock.Advance(47 * time.Minute)
	b.asks(abandoned, payment.Void)
	require.Empty(t, b.choose(page, fake.Pay))
}

// The session of a payment is opened once, even if the call is repeated. Each session has its own
// order. Stripe repeats an internal error under the same key.
func TestOpen(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p, page := b.opened()
	b.clock.Advance(time.Minute)
	again, err := b.Open(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, payment.Page{URL: page, Ref: p.Ref}, again)
	require.Equal(t, title, b.fake.Order(p.OrderID).Name)
	require.Equal(t, title, b.fake.Order(p.OrderID).Description)
	b.fake.Calls.Inject(fake.CreateSession, fakes.Broken)
	p.ID = uuid.New()
	for range 2 {
		_, err = b.Open(t.Context(), p)
		require.ErrorIs(t, err, payment.ErrKeySpent)
	}
	p.ID, p.Amount = uuid.New(), 60
	_, err = b.Open(t.Context(), p)
	require.NoError(t, err)
	p.Amount = 70
	_, err = b.Open(t.Context(), p)
	require.ErrorIs(t, err, payment.ErrKeySpent, "other parameters")
	for _, fault := range []fakes.Fault{fakes.Dropped, fakes.Limited, fakes.Garbled} {
		b.fake.Calls.Inject(fake.CreateSession, fault)
		_, err = b.Open(t.Context(), p)
		require.Error(t, err)
		require.NotErrorIs(t, err, payment.ErrKeySpent, "%s", fault)
	}
}

func TestReturn(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	_, err := b.Return(map[string]string{"token": "t-1"})
	require.Error(t, err)
	auth, err := b.Return(map[string]string{"orderId": "o-1", "token": "t-1", "paymentKey": "pi_of_somebody"})
	require.NoError(t, err)
	require.Equal(t, payment.Auth{OrderID: "o-1", Token: "t-1"}, auth, "only a hint")
}

// Only the payment's own authorised intent is charged, whatever key a request contains.
func TestOnlyItsOwnIntentIsCharged(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	victim := b.authorized()
	p, _ := b.opened()
	p.PaymentKey = b.fake.Order(victim.OrderID).Intent
	for _, p := range []payment.Payment{p, {OrderID: p.OrderID, PaymentKey: p.PaymentKey}} {
		_, err := b.Charge(t.Context(), p, payment.Outcome{})
		require.ErrorIs(t, err, payment.ErrNotSent)
		require.ErrorIs(t, err, payment.ErrChargeRejected)
	}
	p.Ref = victim.Ref
	_, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotSent)
	victim.Currency = "USD"
	_, err = b.Ask(t.Context(), victim)
	require.Error(t, err)
	require.Zero(t, b.fake.Calls.Count(fake.CaptureIntent))
}

// After a capture went wrong, a look-up shows whether it took effect. A new key charges only once.
func TestCaptureFaults(t *testing.T) {
	t.Parallel()
	for fault, acted := range map[fakes.Fault]bool{
		fakes.Lost: true, fakes.Broken: true, fakes.Dropped: false, fakes.Failed: false, fakes.Limited: false, fakes.Garbled: false,
	} {
		b := newShop(t)
		p := b.authorized()
		b.fake.Calls.Inject(fake.CaptureIntent, fault)
		_, err := b.Charge(t.Context(), p, payment.Outcome{})
		require.Error(t, err, "%s", fault)
		require.NotErrorIs(t, err, payment.ErrNotSent, "%s", fault)
		require.NotErrorIs(t, err, payment.ErrChargeRejected, "%s: a failure of Stripe", fault)
		if acted {
			require.Equal(t, amount, b.asks(p, payment.Captured).Amount)
		} else {
			b.asks(p, payment.Authorized)
		}
		p.Attempt++
		out, err := b.Charge(t.Context(), p, payment.Outcome{})
		require.NoError(t, err, "%s", fault)
		require.Equal(t, payment.Captured, out.State, "%s", fault)
		require.Equal(t, amount, b.fake.Order(p.OrderID).Received)
	}
}

// Stripe repeats an internal error under its key for a day, so a retry needs another Attempt.
func TestInternalErrorIsKept(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.authorized()
	b.fake.Calls.Inject(fake.CaptureIntent, fakes.Failed)
	for range 2 {
		_, err := b.Charge(t.Context(), p, payment.Outcome{})
		require.ErrorContains(t, err, "api_error")
	}
	b.clock.Advance(24 * time.Hour)
	out, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	require.Equal(t, payment.Captured, out.State)
}

func TestCaptureRefused(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.authorized()
	b.fake.SetRules(fake.Rules{Decline: "insufficient_funds"})
	out, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	require.Equal(t, payment.Outcome{State: payment.Refused, DeclineCode: "insufficient_funds"}, out)
}

// If a call before the capture fails, or there is no connection, Charge returns ErrNotSent.
func TestNotSent(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.authorized()
	for _, fault := range []fakes.Fault{fakes.Dropped, fakes.Failed, fakes.Garbled, fakes.Limited} {
		b.fake.Calls.Inject(fake.GetSession, fault)
		_, err := b.Charge(t.Context(), p, payment.Outcome{})
		require.ErrorIs(t, err, payment.ErrNotSent)
		require.NotErrorIs(t, err, payment.ErrChargeRejected)
	}
	_, err := b.client("http://127.0.0.1:1", apiKey).Charge(t.Context(), p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotSent)
	_, err = b.client(b.url, "sk_wrong").Charge(t.Context(), p, payment.Outcome{})
	require.ErrorIs(t, err, payment.ErrNotSent)
	b.Rekey(secrets("sk_wrong"))
	_, err = b.Ask(t.Context(), p)
	require.ErrorContains(t, err, "status 401")
	require.Zero(t, b.fake.Calls.Count(fake.CaptureIntent))
}

// An answer that does not come from Stripe is an error, whatever its HTTP status. The texts of
// errors contain no data of the payer.
func TestAnswersOfOthers(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.authorized()
	for status, body := range map[int]string{
		http.StatusOK: "<html>", http.StatusBadRequest: "<html>", http.StatusPaymentRequired: "{}", http.StatusNotFound: "",
	} {
		_, err := b.answering(status, body).Ask(t.Context(), p)
		require.Error(t, err, "%d", status)
		answer, err := b.answering(status, body).Refund(t.Context(), refundCall(p, b, "1", 1))
		require.Error(t, err, "%d %+v", status, answer)
		require.NotErrorIs(t, err, payment.ErrKeySpent)
	}
	_, err := b.answering(http.StatusPaymentRequired, `{"error": {"type": "card_error", "code": "card_declined", "message": "declined",
		"payment_method": {"card": {"last4": "4242"}}}}`).Ask(t.Context(), p)
	require.ErrorContains(t, err, "card_declined")
	require.NotContains(t, err.Error(), "4242")
}

func TestCancel(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	cancel := func(p payment.Payment, want payment.State) {
		t.Helper()
		for range 2 {
			out, err := b.Cancel(t.Context(), p)
			require.NoError(t, err)
			require.Equal(t, want, out.State)
		}
	}
	cancel(payment.Payment{}, payment.Void)
	p, page := b.opened()
	cancel(p, payment.Void)
	require.Empty(t, b.choose(page, fake.Pay), "the page is closed")
	p = b.authorized()
	cancel(p, payment.Void)
	require.Equal(t, "canceled", b.fake.Order(p.OrderID).Status)
	_, err := b.Charge(t.Context(), p, payment.Outcome{})
	require.NoError(t, err)
	p = b.captured()
	cancel(p, payment.Captured)
	require.Zero(t, b.fake.Order(p.OrderID).Refunded, "it never refunds")
}

// If a buyer pays while the session is being expired, the next Cancel cancels the authorisation.
func TestCancelRacesThePage(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p, page := b.opened()
	release, done := b.fake.Calls.Block(fake.ExpireSession), make(chan error)
	go func() {
		_, err := b.Cancel(t.Context(), p)
		done <- err
	}()
	b.until(fake.ExpireSession, 1)
	require.NotEmpty(t, b.choose(page, fake.Pay))
	release()
	require.Error(t, <-done)
	out, err := b.Cancel(t.Context(), p)
	require.NoError(t, err)
	require.Equal(t, payment.Void, out.State)
	require.Equal(t, "canceled", b.fake.Order(p.OrderID).Status)
}

// Special characters in tokens and order ids are escaped in the page's addresses.
func TestAddressesAreEscaped(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	id := uuid.New()
	p := payment.Payment{ID: id, OrderID: "a&b=c", Token: "t?{}", Amount: 50, Currency: "KRW", Description: title, ExpiresAt: b.clock.Now().Add(time.Minute)}
	page, err := b.Open(t.Context(), p)
	require.NoError(t, err)
	returnURL, err := url.Parse(b.choose(page.URL, fake.Back))
	require.NoError(t, err)
	require.Equal(t, url.Values{"orderId": {"a&b=c"}, "token": {"t?{}"}}, returnURL.Query())
}
