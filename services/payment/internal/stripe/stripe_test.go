package stripe_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/testkit"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/stripe"
)

const (
	apiKey    = "sk_test_123"
	secret    = "whsec_of-thirty-two-bytes-or-longer"
	oldSecret = "whsec_that-is-being-replaced-by-it"
	amount    = int64(55000)
	title     = "Concert: A-1-1"
)

// shop is a client of a fake of Stripe.
type shop struct {
	*stripe.Client

	t     *testing.T
	clock *testkit.Clock
	fake  *fake.Server
	url   string
}

func newShop(t *testing.T) *shop {
	t.Helper()
	b := &shop{t: t, clock: testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	server := httptest.NewUnstartedServer(nil)
	b.url = "http://" + server.Listener.Addr().String()
	b.fake = fake.NewServer(fake.Options{Now: b.clock.Now, Key: apiKey, WebhookSecret: secret, PublicURL: b.url})
	server.Config.Handler = b.fake
	server.Start()
	t.Cleanup(server.Close)
	b.Client = b.client(b.url, apiKey)
	return b
}

func (b *shop) client(address, key string) *stripe.Client {
	b.t.Helper()
	c := stripe.NewClient(secrets(key), stripe.Options{URL: address, ReturnURL: "https://shop/back", Now: b.clock.Now})
	b.t.Cleanup(c.Close)
	return c
}

func secrets(key string) stripe.Secrets {
	return stripe.Secrets{Key: config.Secret(key), Webhooks: config.Secret(oldSecret + "," + secret)}
}

// opened returns a payment whose page is open, and the page's address.
func (b *shop) opened() (payment.Payment, string) {
	b.t.Helper()
	id := uuid.New()
	p := payment.Payment{
		ID: id, OrderID: "order-" + id.String(), Amount: amount, Currency: "KRW", Description: title, Token: "t-1", Attempt: 1, ExpiresAt: b.clock.Now().Add(7 * time.Minute),
	}
	page, err := b.Open(b.t.Context(), p)
	require.NoError(b.t, err)
	p.Ref = page.Ref
	return p, page.URL
}

// authorized returns a payment whose buyer has paid on the page.
func (b *shop) authorized() payment.Payment {
	b.t.Helper()
	p, page := b.opened()
	b.choose(page, fake.Pay)
	return p
}

// captured returns a payment that was charged.
func (b *shop) captured() payment.Payment {
	b.t.Helper()
	p := b.authorized()
	out, err := b.Charge(b.t.Context(), p, payment.Outcome{})
	require.NoError(b.t, err)
	p.ChargeID = out.ChargeID
	return p
}

// choose makes a choice on a page. It returns the address of the redirect; empty: there is none.
func (b *shop) choose(page, choice string) string {
	b.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(b.t.Context(), http.MethodPost, page, strings.NewReader(url.Values{"choice": {choice}}.Encode()))
	require.NoError(b.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	require.NoError(b.t, err)
	require.NoError(b.t, resp.Body.Close())
	return resp.Header.Get("Location")
}

func (b *shop) asks(p payment.Payment, want payment.State) payment.Outcome {
	b.t.Helper()
	out, err := b.Ask(b.t.Context(), p)
	require.NoError(b.t, err)
	require.Equal(b.t, want, out.State)
	return out
}

// answering returns a client of a server that gives the same answer to every call.
func (b *shop) answering(status int, body string) *stripe.Client {
	b.t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	b.t.Cleanup(server.Close)
	return b.client(server.URL, apiKey)
}

func refundCall(p payment.Payment, b *shop, gen string, amount int64) payment.RefundCall {
	id := uuid.NewSHA1(p.ID, []byte("refund"))
	return payment.RefundCall{
		OrderID: p.OrderID, Currency: p.Currency, ChargeID: p.ChargeID, RefundID: id, Key: id.String() + "#" + gen, Amount: amount, NotAfter: b.clock.Now().Add(time.Minute),
	}
}
