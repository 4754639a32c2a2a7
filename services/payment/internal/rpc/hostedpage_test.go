package rpc_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// choose submits a choice on the page of a payment. It returns the parameters of the redirect to
// the shop; nil: there was none.
func (b *bundle) choose(p *paymentv1.PrepareResponse, choice string) map[string]string {
	b.t.Helper()
	page, err := url.Parse(p.GetPage().GetUrl())
	require.NoError(b.t, err)
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	form := strings.NewReader(url.Values{"choice": {choice}}.Encode())
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, b.server.URL+page.Path, form)
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	require.Equal(b.t, http.StatusSeeOther, resp.StatusCode)
	location, err := resp.Location()
	require.NoError(b.t, err)
	require.True(b.t, strings.HasPrefix(location.String(), "https://shop/back?"), location)
	params := map[string]string{}
	for name, values := range location.Query() {
		params[name] = values[0]
	}
	return params
}

// Each choice on the page leads to its outcome after the payer is back. Only a charge takes money.
func TestChoicesOnThePage(t *testing.T) {
	t.Parallel()
	for choice, want := range map[string]string{"approve": "CONFIRMED", "slow": "CONFIRMED", "decline": "DECLINED", "back": "OPEN"} {
		t.Run(choice, func(t *testing.T) {
			t.Parallel()
			b := setup(t, withPage)
			p, ref := b.prepared()
			params := b.choose(p, choice)
			require.Zero(t, b.provider.Calls(paymenttest.Charges))
			_, err := b.comeBack(params)
			require.NoError(t, err)
			b.becomes(p, want)
			switch want {
			case "OPEN":
				_, err = b.comeBack(b.choose(p, "approve"))
				require.NoError(t, err, "the page is still there")
				b.becomes(p, "CONFIRMED")
			case "DECLINED":
				again, err := b.prepare(ref, newIdempotencyKey())
				require.NoError(t, err)
				require.Equal(t, "OPEN", again.GetStatus())
				require.NotEqual(t, p.GetPage().GetUrl(), again.GetPage().GetUrl())
				_, err = b.comeBack(b.choose(again, "approve"))
				require.NoError(t, err)
				b.becomes(again, "CONFIRMED")
				require.Equal(t, 2, b.tickets.Hold(ref).Opens)
			}
		})
	}
}

// A payer who has paid on the page and never comes back gets the ticket: at once by the webhook, or
// by polling if the webhook is lost.
func TestPayerNeverComesBack(t *testing.T) {
	t.Parallel()
	for _, webhook := range []bool{true, false} {
		b := setup(t, withPage)
		p, _ := b.prepared()
		require.Nil(t, b.choose(p, "stay"))
		wait := 20 * time.Second
		if webhook {
			require.NoError(t, b.webhook("session.completed", p.GetOrderId()))
			wait = 0
		}
		b.sweep(wait)
		require.Equal(t, "CONFIRMED", b.get(p).GetStatus())
		require.Equal(t, 1, b.provider.Calls(paymenttest.Charges))
	}
}

// If the answer to the opening of a page is lost, the repeated request returns the same page.
func TestPageIsOpenedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t, withPage)
	b.provider.Lose(paymenttest.Sessions, 1)
	ref, key := b.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	p, err := b.prepare(ref, key)
	require.NoError(t, err)
	require.Equal(t, "PREPARED", p.GetStatus())
	require.Nil(t, p.GetPage())
	first := b.provider.Session(p.GetOrderId()).SessionID
	require.NotEmpty(t, first)
	p, err = b.prepare(ref, key)
	require.NoError(t, err)
	require.Equal(t, publicURL+"/pay/"+first, p.GetPage().GetUrl())
}
