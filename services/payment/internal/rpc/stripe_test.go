package rpc_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/ticket"
)

// stripeShop is a payment service whose only provider is a fake of Stripe.
type stripeShop struct {
	*bundle

	stripe *fake.Server
	url    string
	guard  *guard.Provider
	// endpointRate is payment.Options.EndpointRate of Stripe.
	endpointRate float64
	// unanswered counts payments that ended although their buyers may have paid.
	unanswered atomic.Int64
}

func setupStripe(t *testing.T, options ...func(*stripeShop)) *stripeShop {
	t.Helper()
	s := &stripeShop{bundle: setup(t)}
	for _, option := range options {
		option(s)
	}
	server := httptest.NewUnstartedServer(nil)
	s.url = "http://" + server.Listener.Addr().String()
	s.stripe = fake.NewServer(fake.Options{Now: s.clock.Now, Key: "sk_test_1", WebhookSecret: secret, PublicURL: s.url})
	server.Config.Handler = s.stripe
	server.Start()
	t.Cleanup(server.Close)
	client := stripe.NewClient(stripe.Secrets{Key: "sk_test_1", Webhooks: secret}, stripe.Options{URL: s.url, ReturnURL: "https://shop/back", Now: s.clock.Now})
	t.Cleanup(client.Close)
	s.guard = guard.New(client, unlimited)
	s.service = s.replica(s.guard)
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { rpc.Register(r, s.service) }, withoutTimeout())
	s.client = paymentv1.NewPaymentServiceClient(conn)
	return s
}

// replica returns a payment service with the provider p.
func (s *stripeShop) replica(p payment.Provider) *payment.Service {
	s.t.Helper()
	service := payment.New(s.store(), ticket.NewClient(s.dialTickets()), payment.Providers{
		Default: stripe.Name, ByName: map[string]payment.Provider{stripe.Name: p},
	}, slog.New(slog.NewTextHandler(s.t.Output(), nil)), payment.Options{
		Now: s.clock.Now, EndpointRate: func(string) float64 { return s.endpointRate },
		Observe: payment.Observer{UnknownOrder: func() { s.unknownOrders.Add(1) }, Unanswered: func() { s.unanswered.Add(1) }},
	})
	s.t.Cleanup(func() { _ = service.Wait(context.Background()) })
	return service
}

// choose makes a choice on the page of a payment, and returns the parameters of the redirect.
func (s *stripeShop) choose(p *paymentv1.PrepareResponse, choice string) map[string]string {
	s.t.Helper()
	return s.chooseAt(p.GetPage().GetUrl(), choice)
}

func (s *stripeShop) chooseAt(page, choice string) map[string]string {
	s.t.Helper()
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, page, strings.NewReader(url.Values{"choice": {choice}}.Encode()))
	require.NoError(s.t, err)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := client.Do(req)
	require.NoError(s.t, err)
	require.NoError(s.t, resp.Body.Close())
	location, err := url.Parse(resp.Header.Get("Location"))
	require.NoError(s.t, err)
	params := map[string]string{}
	for name, values := range location.Query() {
		params[name] = values[0]
	}
	return params
}

func (s *stripeShop) comeBack(params map[string]string) {
	s.t.Helper()
	_, err := s.client.ReturnPayment(s.t.Context(), &paymentv1.ReturnPaymentRequest{Provider: stripe.Name, Params: params})
	require.NoError(s.t, err)
}

// deliverPending delivers the webhooks that are due, and returns them.
func (s *stripeShop) deliverPending() []fakes.Webhook {
	s.t.Helper()
	list := s.stripe.Webhooks.Take()
	for _, x := range list {
		require.NoError(s.t, s.deliverWebhook(x))
	}
	return list
}

func (s *stripeShop) deliverWebhook(x fakes.Webhook) error {
	_, err := s.client.HandleWebhook(s.t.Context(), &paymentv1.HandleWebhookRequest{Provider: stripe.Name, Headers: x.Header, Body: x.Body})
	return err
}

// charged returns a payment that was charged.
func (s *stripeShop) charged() *paymentv1.PrepareResponse {
	s.t.Helper()
	p, _ := s.prepared()
	s.comeBack(s.choose(p, fake.Pay))
	s.sweep(0)
	require.Equal(s.t, "CONFIRMED", s.get(p).GetStatus())
	return p
}

// bought returns a payment that was charged, with one ticket for the whole amount.
func (s *stripeShop) bought() *paymentv1.PrepareResponse {
	s.t.Helper()
	p := s.charged()
	s.tickets.Issue(p.GetPaymentId(), paymenttest.Ticket{ID: uuid.NewString(), Paid: amount})
	return p
}

// The buyer pays on Stripe's page and comes back. Only then is the payment charged, once.
func TestStripePays(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, _ := s.prepared()
	require.Equal(t, "OPEN", p.GetStatus())
	require.True(t, strings.HasPrefix(p.GetPage().GetUrl(), s.url+"/c/pay/"))
	params := s.choose(p, fake.Pay)
	require.Zero(t, s.stripe.Order(p.GetOrderId()).Received)
	s.comeBack(params)
	s.comeBack(params)
	s.sweep(0)
	require.Equal(t, "CONFIRMED", s.get(p).GetStatus())
	s.comeBack(params)
	s.deliverPending()
	s.sweep(time.Minute)
	require.Equal(t, 1, s.stripe.Calls.Count(fake.CaptureIntent))
	require.Equal(t, amount, s.stripe.Order(p.GetOrderId()).Received)
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, s.eventTypes(p))
}

// A buyer who paid and never comes back gets the ticket: by the webhook, or else by polling.
func TestStripeBuyerNeverComesBack(t *testing.T) {
	t.Parallel()
	for _, webhook := range []bool{true, false} {
		s := setupStripe(t)
		p, _ := s.prepared()
		require.Empty(t, s.choose(p, fake.Close))
		wait := 20 * time.Second
		if webhook {
			s.deliverPending()
			wait = 0
		}
		s.sweep(wait)
		require.Equal(t, "CONFIRMED", s.get(p).GetStatus())
	}
}

// A card that is declined on the page does not end the payment. If the capture is declined, the
// payment ends, and the authorisation is cancelled.
func TestStripeDeclines(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, ref := s.prepared()
	require.Empty(t, s.choose(p, fake.Decline))
	s.deliverPending()
	s.sweep(time.Minute)
	require.Equal(t, "OPEN", s.get(p).GetStatus())
	s.stripe.SetRules(fake.Rules{Decline: "insufficient_funds"})
	s.comeBack(s.choose(p, fake.Pay))
	got := s.becomes(p, "DECLINED")
	require.Equal(t, "insufficient_funds", got.GetDeclineCode())
	s.sweep(time.Second)
	require.Equal(t, "canceled", s.stripe.Order(p.GetOrderId()).Status)
	require.Empty(t, s.tickets.Hold(ref).Payment)
	s.stripe.SetRules(fake.Rules{})
	again, err := s.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	s.comeBack(s.choose(again, fake.Pay))
	s.becomes(again, "CONFIRMED")
}

// A buyer who goes back without paying may still pay. If the buyer cancels the payment, the page is
// closed, even if it was paid in a second tab.
func TestStripeChangeOfMind(t *testing.T) {
	t.Parallel()
	for _, paid := range []bool{false, true} {
		s := setupStripe(t)
		p, ref := s.prepared()
		params := s.choose(p, fake.Back)
		s.comeBack(params)
		s.sweep(0)
		require.Equal(t, "OPEN", s.get(p).GetStatus())
		require.Equal(t, p.GetPage().GetUrl(), s.get(p).GetPage().GetUrl())
		if paid {
			s.choose(p, fake.Pay)
		}
		_, err := s.cancel(p, user)
		require.NoError(t, err)
		s.sweep(time.Second)
		require.Equal(t, map[bool]string{false: "expired", true: "canceled"}[paid], s.stripe.Order(p.GetOrderId()).Status)
		require.Empty(t, s.tickets.Hold(ref).Payment)
		require.Empty(t, s.choose(p, fake.Pay), "the page is closed")
		s.comeBack(params)
		s.deliverPending()
		s.sweep(time.Hour)
		require.Equal(t, "EXPIRED", s.get(p).GetStatus())
		require.Zero(t, s.stripe.Order(p.GetOrderId()).Received)
	}
}

// When the page's time is over, this service expires its session, long before Stripe would.
func TestStripePageEnds(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, _ := s.prepared()
	s.sweep(12 * time.Minute)
	s.becomes(p, "EXPIRED")
	s.sweep(time.Second)
	require.Equal(t, "expired", s.stripe.Order(p.GetOrderId()).Status)
}

// Whatever happens to a capture, money is taken once. Each attempt has another key.
func TestStripeLosesCaptures(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes.Fault{fakes.Lost, fakes.Broken, fakes.Dropped, fakes.Failed, fakes.Limited, fakes.Garbled, fakes.Late} {
		s := setupStripe(t)
		p, _ := s.prepared()
		s.stripe.Calls.Inject(fake.CaptureIntent, fault)
		s.comeBack(s.choose(p, fake.Pay))
		s.sweep(0)
		s.becomes(p, "CONFIRMED")
		s.stripe.Calls.Arrive()
		s.sweep(time.Hour)
		require.Equal(t, amount, s.stripe.Order(p.GetOrderId()).Received, "%s", fault)
		require.Equal(t, []string{"PAYMENT_CONFIRMED"}, s.eventTypes(p), "%s", fault)
	}
}

// If the answer to the opening of a session is lost, the repeated request gets the same session.
func TestStripeOpensOnce(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	s.stripe.Calls.Inject(fake.CreateSession, fakes.Lost)
	ref, key := s.tickets.Add(user, amount, holdTime), newIdempotencyKey()
	p, err := s.prepare(ref, key)
	require.NoError(t, err)
	require.Equal(t, "PREPARED", p.GetStatus())
	p, err = s.prepare(ref, key)
	require.NoError(t, err)
	require.NotEmpty(t, p.GetPage().GetUrl())
	require.Len(t, s.stripe.Orders(), 1)
}

// Stripe repeats an internal error under the same key. So the payment ends; the next has another.
func TestStripeKeepsTheErrorOfASession(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes.Fault{fakes.Broken, fakes.Failed} {
		s := setupStripe(t)
		s.stripe.Calls.Inject(fake.CreateSession, fault)
		ref, key := s.tickets.Add(user, amount, holdTime), newIdempotencyKey()
		for range 2 {
			p, err := s.prepare(ref, key)
			require.NoError(t, err)
			require.Equal(t, "EXPIRED", p.GetStatus())
		}
		p, err := s.prepare(ref, newIdempotencyKey())
		require.NoError(t, err)
		s.comeBack(s.choose(p, fake.Pay))
		s.becomes(p, "CONFIRMED")
	}
}

// A confirmation with a key does not charge a payment whose own page is not paid. It only makes the
// sweeper ask, once in five seconds as any hint does, so that nobody can use up Stripe's limits by it.
func TestStripeTakesNoKeys(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	other, _ := s.prepared()
	s.choose(other, fake.Pay)
	p, _ := s.prepared()
	for range 40 {
		got, err := s.confirm(p, s.stripe.Order(other.GetOrderId()).Intent, newIdempotencyKey())
		require.NoError(t, err)
		require.Equal(t, "PENDING", got.GetStatus())
		s.sweep(0)
	}
	s.sweep(5 * time.Second)
	require.Equal(t, "OPEN", s.get(p).GetStatus())
	require.LessOrEqual(t, s.stripe.Calls.Count(fake.GetSession), 2)
	require.Zero(t, s.stripe.Calls.Count(fake.CaptureIntent))
	s.clock.Advance(5 * time.Second)
	s.comeBack(s.choose(p, fake.Pay))
	s.becomes(p, "CONFIRMED")
	s.becomes(other, "CONFIRMED")
}

// A webhook only makes the sweeper ask Stripe, whatever it contains.
func TestStripeWebhooks(t *testing.T) {
	t.Parallel()
	s := setupStripe(t)
	p, _ := s.prepared()
	body := []byte(`{"type": "payment_intent.succeeded", "data": {"object": {"status": "succeeded", "metadata": {"urr_order": "` + p.GetOrderId() + `"}}}}`)
	deliverSigned := func(body []byte, secret string, after time.Duration) error {
		header := map[string]string{"stripe-signature": fake.Sign(secret, body, s.clock.Now().Add(after))}
		return s.deliverWebhook(fakes.Webhook{Header: header, Body: body})
	}
	require.ErrorIs(t, deliverSigned(body, "whsec_of-somebody-else-who-forges-it", 0), errs.ErrWebhookSignature)
	require.ErrorIs(t, deliverSigned(body, secret, -6*time.Minute), errs.ErrWebhookSignature)
	require.ErrorIs(t, deliverSigned(body, secret, 6*time.Minute), errs.ErrWebhookSignature)
	lookups := s.stripe.Calls.Count(fake.GetSession)
	for range 10 {
		require.NoError(t, deliverSigned(body, secret, 0))
		s.sweep(100 * time.Millisecond)
	}
	require.Equal(t, lookups+1, s.stripe.Calls.Count(fake.GetSession), "asked once in five seconds")
	s.becomes(p, "OPEN") // it is not paid
	require.NoError(t, deliverSigned([]byte(strings.ReplaceAll(string(body), p.GetOrderId(), "unknown")), secret, 0))
	require.EqualValues(t, 1, s.unknownOrders.Load())
	s.choose(p, fake.Pay)
	for _, x := range s.deliverPending() {
		require.NoError(t, s.deliverWebhook(x), "replayed")
	}
	s.becomes(p, "CONFIRMED")
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, s.eventTypes(p))
}
