package toss_test

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/payment"
)

func TestPage(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	p := payment.Payment{OrderID: "order-1", Token: "TOKEN", Amount: amount, Currency: "KRW", Description: "Concert: A-1-1, A-1-2"}
	page, err := s.client.Open(t.Context(), p)
	require.NoError(t, err)
	require.Empty(t, page.Ref, "Toss knows nothing of it")
	address, fragment, _ := strings.Cut(page.URL, "#")
	require.Equal(t, "https://pay.test/toss", address, "no server sees what is paid")
	values, err := url.ParseQuery(fragment)
	require.NoError(t, err)
	require.Equal(t, url.Values{"order": {"order-1"}, "token": {"TOKEN"}, "amount": {"55000"}, "name": {"Concert: A-1-1, A-1-2"}}, values)
	p.Currency = "USD"
	_, err = s.client.Open(t.Context(), p)
	var refused *payment.NotTakenError
	require.ErrorAs(t, err, &refused, "it is never opened")
}

func TestReturn(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	type params = map[string]string
	for name, c := range map[string]struct {
		params params
		want   payment.Auth
	}{
		"paid": {
			params{"order": "o", "token": "T", "paymentType": "NORMAL", "paymentKey": "k", "orderId": "o", "amount": "55000"},
			payment.Auth{OrderID: "o", Token: "T", Key: "k", Amount: amount},
		},
		"gave up":  {params{"order": "o", "token": "T", "code": "PAY_PROCESS_CANCELED", "message": "?"}, payment.Auth{OrderID: "o", Token: "T"}},
		"declined": {params{"order": "o", "token": "T", "code": "REJECT_CARD_COMPANY", "message": "?", "orderId": "o"}, payment.Auth{OrderID: "o", Token: "T", DeclineCode: "REJECT_CARD_COMPANY"}},
		"no token": {params{"order": "o"}, payment.Auth{OrderID: "o"}},

		"no order":      {params{"token": "T", "paymentKey": "k", "orderId": "o", "amount": "55000"}, payment.Auth{}},
		"another order": {params{"order": "o", "token": "T", "paymentKey": "k", "orderId": "p", "amount": "55000"}, payment.Auth{}},
		"no amount":     {params{"order": "o", "token": "T", "paymentKey": "k", "orderId": "o"}, payment.Auth{}},
		"amount 0":      {params{"order": "o", "token": "T", "paymentKey": "k", "orderId": "o", "amount": "0"}, payment.Auth{}},
		"fraction":      {params{"order": "o", "token": "T", "paymentKey": "k", "orderId": "o", "amount": "1.5"}, payment.Auth{}},
		"long key":      {params{"order": "o", "token": "T", "paymentKey": strings.Repeat("k", 201), "orderId": "o", "amount": "1"}, payment.Auth{}},
	} {
		got, err := s.client.Return(c.params)
		require.Equal(t, c.want, got, name)
		require.Equal(t, c.want == payment.Auth{}, err != nil, name)
	}
}

// From a webhook only the order is read, since anybody may send one.
func TestWebhooks(t *testing.T) {
	t.Parallel()
	s := newShop(t, fake.Options{})
	p := s.charged()
	require.Empty(t, s.toss.GiveBack(p.PaymentKey, 1))
	declined := s.pay()
	declined.PaymentKey = s.choose(declined, "decline")
	_, err := s.client.Charge(t.Context(), declined, payment.Outcome{})
	require.NoError(t, err)
	var got []payment.Notice
	for _, w := range s.toss.Webhooks.Take() {
		require.Contains(t, w.Header, "tosspayments-webhook-transmission-id")
		require.NotContains(t, w.Header, "tosspayments-webhook-signature")
		notice, err := s.client.ParseWebhook(w.Header, w.Body, time.Now())
		require.NoError(t, err)
		got = append(got, notice)
	}
	require.Equal(t, []payment.Notice{
		{OrderID: p.OrderID, Unsigned: true}, {OrderID: p.OrderID, Refund: true, Unsigned: true}, {OrderID: declined.OrderID, Unsigned: true},
	}, got)
	for _, body := range []string{"", "null", "[]", "<html>", `{"eventType":"payout.changed"}`, `{"eventType":"PAYMENT_STATUS_CHANGED"}`, `{"eventType":1}`} {
		notice, err := s.client.ParseWebhook(nil, []byte(body), time.Now())
		require.NoError(t, err, body)
		require.Zero(t, notice, body)
	}
	forged, err := json.Marshal(map[string]any{"eventType": "PAYMENT_STATUS_CHANGED", "data": map[string]string{"orderId": "o", "status": "DONE"}})
	require.NoError(t, err)
	notice, err := s.client.ParseWebhook(nil, forged, time.Now())
	require.NoError(t, err)
	require.Equal(t, payment.Notice{OrderID: "o", Unsigned: true}, notice, "a hint, whoever sent it")
}
