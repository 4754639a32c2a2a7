package stripe_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	fake "urr.guru/services/payment/fakes/stripe"
)

// do makes a request to the fake, without Stripe's key. It returns the answer's body.
func (b *shop) do(method, address, body string, want int) string {
	b.t.Helper()
	req, err := http.NewRequestWithContext(b.t.Context(), method, address, strings.NewReader(body))
	require.NoError(b.t, err)
	resp, err := http.DefaultClient.Do(req)
	require.NoError(b.t, err)
	answer, err := io.ReadAll(resp.Body)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	require.Equal(b.t, want, resp.StatusCode, "%s", answer)
	return string(answer)
}

// End-to-end tests can control the fake over HTTP, and browsers can open its page.
func TestFakeIsControlled(t *testing.T) {
	t.Parallel()
	b := newShop(t)
	p := b.captured()
	opened, page := b.opened()
	require.Contains(t, b.do(http.MethodGet, page, "", http.StatusOK), `id="pay"`)
	b.do(http.MethodPost, b.url+"/control/refund-by-hand", `{"order": "`+p.OrderID+`", "amount": 100}`, http.StatusNoContent)
	var orders []fake.Order
	read := func() {
		require.NoError(t, json.Unmarshal([]byte(b.do(http.MethodGet, b.url+"/control/orders", "", http.StatusOK)), &orders))
		require.Len(t, orders, 2)
		if orders[0].Order == opened.OrderID {
			orders[0], orders[1] = orders[1], orders[0]
		}
	}
	read()
	require.Equal(t, b.fake.Order(p.OrderID), orders[0])
	require.EqualValues(t, 100, orders[0].Refunded)
	b.do(http.MethodPost, b.url+"/control/settle-refund", `{"refund": "`+orders[0].Refunds[0].ID+`", "status": "failed"}`, http.StatusNoContent)
	read()
	require.Zero(t, orders[0].Refunded)
	b.do(http.MethodPost, b.url+"/control/dispute", `{"order": "`+p.OrderID+`"}`, http.StatusNoContent)
	b.do(http.MethodPost, b.url+"/control/dispute", `{"order": "`+p.OrderID+`", "status": "won"}`, http.StatusNoContent)
	for path, body := range map[string]string{
		"refund-by-hand": `{"order": "unknown", "amount": 1}`, "settle-refund": `{"refund": "unknown", "status": "failed"}`, "dispute": `{"order": "unknown"}`,
	} {
		b.do(http.MethodPost, b.url+"/control/"+path, body, http.StatusBadRequest)
	}
	b.do(http.MethodPut, b.url+"/control/rules", `{"decline": "do_not_honor"}`, http.StatusNoContent)
	b.do(http.MethodPut, b.url+"/control/faults", `{"lost": 1}`, http.StatusNoContent)
	b.do(http.MethodPut, b.url+"/control/faults", `{"lost": 2}`, http.StatusBadRequest)
	_, err := b.Ask(t.Context(), p)
	require.Error(t, err)
	b.choose(page, fake.Pay)
	require.Contains(t, b.do(http.MethodGet, page, "", http.StatusOK), "You have paid already")
}
