package stripe_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
)

// From a webhook of Stripe only the order is read, never an outcome; of a dispute, and of a refund
// that a person made, the charge.
func TestWebhooksNameTheOrder(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	seen := map[payment.Notice]int{}
	parseAll := func() {
		for _, x := range b.fake.Webhooks.Take() {
			notice, err := b.ParseWebhook(x.Header, x.Body, b.clock.Now())
			require.NoError(t, err)
			seen[notice]++
		}
	}
	p := b.captured()
	parseAll()
	require.Equal(t, map[payment.Notice]int{{OrderID: p.OrderID}: 3}, seen, "authorised, complete, captured")
	require.NoError(t, b.fake.RefundByHand(p.OrderID, 1))
	parseAll()
	require.Equal(t, 1, seen[payment.Notice{OrderID: p.OrderID, Refund: true}], "by the charge, which has the order")
	byHand := payment.Notice{ChargeID: p.ChargeID, Refund: true}
	require.Equal(t, 1, seen[byHand], "a refund by hand names no order")
	require.NoError(t, b.fake.SettleRefund(b.fake.Order(p.OrderID).Refunds[0].ID, "failed"))
	parseAll()
	require.Equal(t, 3, seen[byHand])
	delete(seen, byHand)
	answer, err := b.Refund(t.Context(), refundCall(p, b, "1", 1))
	require.NoError(t, err)
	require.NoError(t, b.fake.SettleRefund(answer.ID, "failed"))
	parseAll()
	require.Equal(t, 5, seen[payment.Notice{OrderID: p.OrderID, Refund: true}])
	delete(seen, payment.Notice{})
	require.NoError(t, b.fake.Dispute(p.OrderID, ""))
	parseAll()
	require.Equal(t, 1, seen[payment.Notice{ChargeID: p.ChargeID, Refund: true}], "a dispute names no order")
	require.NoError(t, b.fake.WarnOfFraud(p.OrderID, "misc"))
	parseAll()
	require.Equal(t, 1, seen[payment.Notice{ChargeID: p.ChargeID, FraudType: "misc"}])
	closed, _ := b.opened()
	_, err = b.Cancel(t.Context(), closed)
	require.NoError(t, err)
	parseAll()
	require.Equal(t, 1, seen[payment.Notice{OrderID: closed.OrderID}])
}

// A webhook must be signed with a secret, at most five minutes before or after now.
func TestSignatures(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	now := b.clock.Now()
	body := []byte(`{"type": "payment_intent.succeeded", "data": {"object": {"metadata": {"urr_order": "o-1"}}}}`)
	good := fake.Sign(secret, body, now)
	for name, c := range map[string]struct {
		header string
		body   []byte
		want   bool
	}{
		"signed":             {good, body, true},
		"by another secret":  {fake.Sign(oldSecret, body, now), body, true},
		"several":            {fmt.Sprintf("%s,v1=%064d,v0=00", good, 0), body, true},
		"forged":             {fake.Sign("whsec_of-somebody-else", body, now), body, false},
		"another body":       {good, append([]byte(" "), body...), false},
		"none":               {"", body, false},
		"no time":            {good[len("t=1777636800,"):], body, false},
		"five minutes old":   {fake.Sign(secret, body, now.Add(-5*time.Minute)), body, true},
		"older":              {fake.Sign(secret, body, now.Add(-5*time.Minute-time.Second)), body, false},
		"in five minutes":    {fake.Sign(secret, body, now.Add(5*time.Minute)), body, true},
		"later":              {fake.Sign(secret, body, now.Add(5*time.Minute+time.Second)), body, false},
		"another time":       {"t=1777636801" + good[len("t=1777636800"):], body, false},
		"of the old scheme":  {"t=1777636800,v0" + good[len("t=1777636800,v1"):], body, false},
		"signed, and broken": {fake.Sign(secret, []byte("{"), now), []byte("{"), false},
	} {
		notice, err := b.ParseWebhook(map[string]string{"stripe-signature": c.header}, c.body, now)
		if c.want {
			require.NoError(t, err, name)
			require.Equal(t, payment.Notice{OrderID: "o-1"}, notice, name)
		} else {
			require.ErrorIs(t, err, payment.ErrWebhookSignature, name)
		}
	}
}

// Events of other programs that share the account are ignored.
func TestEventsOfOthers(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	for _, body := range []string{
		`{"type": "invoice.paid", "data": {"object": {"metadata": {"urr_order": "o-1"}}}}`, `{"type": "charge.refunded", "data": {"object": {}}}`,
		`{"type": "payment_intent.succeeded"}`,
	} {
		header := map[string]string{"stripe-signature": fake.Sign(secret, []byte(body), b.clock.Now())}
		notice, err := b.ParseWebhook(header, []byte(body), b.clock.Now())
		require.NoError(t, err)
		require.Empty(t, notice.OrderID)
	}
}
