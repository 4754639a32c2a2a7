package rpc_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/rpctest"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/fakes"
	tossfake "urr.guru/services/payment/fakes/toss"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/ticket"
	"urr.guru/services/payment/internal/toss"
)

// tossShop is a payment service whose only provider is a fake of Toss.
type tossShop struct {
	*bundle

	toss     *tossfake.Server
	url      string
	provider payment.Provider
	// answer, if set, answers calls to Toss instead of the fake; nil: the fake answers.
	answer func(r *http.Request) *http.Response
}

func (s *tossShop) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.answer != nil {
		if resp := s.answer(r); resp != nil {
			return resp, nil
		}
	}
	return http.DefaultTransport.RoundTrip(r)
}

func setupToss(t *testing.T, rules ...tossfake.Rules) *tossShop {
	t.Helper()
	b := setup(t)
	options := tossfake.Options{Now: b.clock.Now, ClientKey: "test_ck", SecretKey: "test_sk"}
	for _, r := range rules {
		options.Rules = r
	}
	s := &tossShop{bundle: b, toss: tossfake.NewServer(options)}
	server := httptest.NewServer(s.toss)
	server.Config.SetKeepAlivesEnabled(false) // else the transport repeats calls without an answer
	t.Cleanup(server.Close)
	s.url = server.URL
	client := toss.NewClient("test_sk", toss.Options{URL: server.URL, PageURL: "https://pay.test/toss", Now: b.clock.Now, Transport: s})
	t.Cleanup(client.Close)
	s.provider = guard.New(client, unlimited)
	providers := payment.Providers{Default: toss.Name, ByName: map[string]payment.Provider{toss.Name: s.provider}}
	b.service = payment.New(b.store(), ticket.NewClient(b.dialTickets()), providers, slog.New(slog.NewTextHandler(t.Output(), nil)),
		payment.Options{Now: b.clock.Now, Observe: payment.Observer{UnknownOrder: func() { b.unknownOrders.Add(1) }}})
	t.Cleanup(func() { _ = b.service.Wait(context.Background()) })
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) { rpc.Register(r, b.service) }, withoutTimeout())
	b.client = paymentv1.NewPaymentServiceClient(conn)
	return s
}

// choose does what the shop's page and Toss's page do: it opens a payment, makes the buyer's
// choice, and returns the parameters with which the buyer comes back.
func (s *tossShop) choose(p *paymentv1.PrepareResponse, choice string) map[string]string {
	s.t.Helper()
	return s.chooseOn(p.GetPage().GetUrl(), p.GetAmount(), choice)
}

func (s *tossShop) chooseOn(page string, amount int64, choice string) map[string]string {
	s.t.Helper()
	address, fragment, _ := strings.Cut(page, "#")
	require.Equal(s.t, "https://pay.test/toss", address)
	what, err := url.ParseQuery(fragment)
	require.NoError(s.t, err)
	back := "https://shop.test/back?" + url.Values{"order": what["order"], "token": what["token"]}.Encode()
	q := tossfake.Request{
		ClientKey: "test_ck", Method: "CARD", OrderID: what.Get("order"), OrderName: "tickets", SuccessURL: back, FailURL: back, WindowTarget: "self",
	}
	q.Amount.Currency, q.Amount.Value = "KRW", amount
	opened, code := s.toss.Open(q)
	require.Empty(s.t, code)
	location, ok := s.toss.Choose(opened.PaymentKey, choice)
	require.True(s.t, ok)
	if location == "" {
		return nil
	}
	u, err := url.Parse(location)
	require.NoError(s.t, err)
	params := map[string]string{}
	for name, values := range u.Query() {
		params[name] = values[0]
	}
	return params
}

func (s *tossShop) comeBack(params map[string]string) (*paymentv1.ReturnPaymentResponse, error) {
	return s.client.ReturnPayment(s.t.Context(), &paymentv1.ReturnPaymentRequest{Provider: toss.Name, Params: params})
}

// returned opens a payment whose buyer has paid on the page and has come back.
func (s *tossShop) returned() (*paymentv1.PrepareResponse, string) {
	s.t.Helper()
	p, ref := s.prepared()
	require.Equal(s.t, "OPEN", p.GetStatus())
	_, err := s.comeBack(s.choose(p, "pay"))
	require.NoError(s.t, err)
	return p, ref
}

// A buyer may come back to a replica without the provider Toss. Another replica then makes the
// charge.
func TestTossReturnElsewhere(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.prepared()
	params := s.choose(p, "pay")
	providers := onlyProvider(s.sandbox)
	service := func() *payment.Service {
		return payment.New(s.store(), ticket.NewClient(s.dialTickets()), providers, slog.New(slog.DiscardHandler), payment.Options{Now: s.clock.Now})
	}
	_, err := service().Return(t.Context(), toss.Name, params, false)
	require.ErrorIs(t, err, payment.ErrProviderUnknown)
	providers.Returns = map[string]func(map[string]string) (payment.Auth, error){toss.Name: toss.DecodeReturn}
	forged := maps.Clone(params)
	forged["token"] = "another"
	_, err = service().Return(t.Context(), toss.Name, forged, false)
	require.ErrorIs(t, err, payment.ErrNotFound)
	_, err = service().Return(t.Context(), toss.Name, params, false)
	require.NoError(t, err)
	s.sweep(0)
	require.Equal(t, "CONFIRMED", s.get(p).GetStatus())
	require.Equal(t, 1, s.charges(p))
}

// charges returns how many payments of an order were charged at Toss.
func (s *tossShop) charges(p *paymentv1.PrepareResponse) (n int) {
	for _, x := range s.toss.Of(p.GetOrderId()) {
		if slices.Contains([]string{tossfake.Done, tossfake.Canceled, tossfake.PartCanceled}, x.Status) {
			n++
		}
	}
	return n
}

func TestTossPays(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, ref := s.prepared()
	require.Zero(t, s.toss.Count(tossfake.Confirms))
	params := s.choose(p, "pay")
	forged := map[string]string{"token": "x"}
	for name, value := range params {
		if name != "token" {
			forged[name] = value
		}
	}
	_, err := s.comeBack(forged)
	require.ErrorIs(t, err, errs.ErrPaymentNotFound)
	got, err := s.comeBack(params)
	require.NoError(t, err)
	require.Equal(t, "PENDING", got.GetStatus())
	require.Zero(t, s.charges(p), "the page takes no money")
	s.sweep(0)
	require.Equal(t, "CONFIRMED", s.get(p).GetStatus())
	require.Equal(t, 1, s.charges(p))
	require.Equal(t, p.GetPaymentId(), s.tickets.Hold(ref).Payment)
	require.Equal(t, []string{"PAYMENT_CONFIRMED"}, s.eventTypes(p))
}

// If the buyer pays in two tabs, only the first key is charged, even if an answer is lost.
func TestTossIsChargedOnceForTwoTabs(t *testing.T) {
	t.Parallel()
	for _, fault := range []fakes.Fault{"", fakes.Lost, fakes.Dropped, fakes.Late, fakes.Garbled} {
		s := setupToss(t)
		p, _ := s.prepared()
		first, second := s.choose(p, "pay"), s.choose(p, "pay")
		s.toss.Inject(tossfake.Confirms, fault)
		for _, params := range []map[string]string{first, second, first} {
			_, err := s.comeBack(params)
			require.NoError(t, err)
			s.sweep(time.Second)
		}
		s.toss.Arrive()
		s.becomes(p, "CONFIRMED")
		require.Equal(t, 1, s.charges(p), fault)
		require.Equal(t, tossfake.Done, s.toss.Of(p.GetOrderId())[0].Status)
		require.Equal(t, tossfake.InProgress, s.toss.Of(p.GetOrderId())[1].Status)
	}
}

// A confirmation without an answer is found by a look-up, or repeated under the same key.
func TestTossLosesTheAnswer(t *testing.T) {
	t.Parallel()
	for fault, confirms := range map[fakes.Fault]int{fakes.Lost: 1, fakes.Dropped: 2, fakes.Garbled: 2} {
		s := setupToss(t)
		s.toss.Inject(tossfake.Confirms, fault)
		p, _ := s.returned()
		s.sweep(0)
		require.Equal(t, "PENDING", s.get(p).GetStatus())
		s.becomes(p, "CONFIRMED")
		require.Equal(t, confirms, s.toss.Count(tossfake.Confirms), fault)
		require.Equal(t, 1, s.charges(p))
	}
}

// A buyer who has paid on the page and never comes back is not charged, and loses the seats.
func TestTossBuyerNeverComesBack(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, ref := s.prepared()
	late := s.choose(p, "pay")
	s.sweep(pageTime)
	s.sweep(0)
	require.Equal(t, "EXPIRED", s.get(p).GetStatus())
	require.Empty(t, s.tickets.Hold(ref).Payment)
	_, err := s.comeBack(late)
	require.NoError(t, err, "the page shows what became of it")
	for range 50 {
		s.sweep(time.Hour)
	}
	require.Equal(t, "EXPIRED", s.get(p).GetStatus())
	require.Zero(t, s.toss.Count(tossfake.Confirms))
	require.Equal(t, tossfake.Expired, s.toss.Of(p.GetOrderId())[0].Status)
}

// Without an answer the seats stay claimed until no confirmation can take effect any more.
func TestTossNeverAnswers(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	silent := make([]fakes.Fault, 1000)
	for i := range silent {
		silent[i] = fakes.Dropped
	}
	s.toss.Inject(tossfake.Confirms, silent...)
	p, ref := s.returned()
	latest, seen := s.clock.Now(), 0
	for s.get(p).GetStatus() != "DECLINED" {
		require.Less(t, s.clock.Now().Sub(latest), 16*time.Minute)
		s.sweep(10 * time.Second)
		if n := s.toss.Count(tossfake.Confirms); n > seen {
			latest, seen = s.clock.Now(), n
		}
	}
	require.GreaterOrEqual(t, s.clock.Now().Sub(latest), 15*time.Minute)
	require.Equal(t, "NOT_CHARGED", s.get(p).GetDeclineCode())
	s.sweep(10 * time.Second)
	require.Empty(t, s.tickets.Hold(ref).Payment)
	require.Zero(t, s.charges(p))
	require.Zero(t, s.toss.Count(tossfake.Cancels))
}

func TestTossDeclines(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, ref := s.prepared()
	_, err := s.comeBack(s.choose(p, "decline"))
	require.NoError(t, err)
	require.Equal(t, "REJECT_CARD_PAYMENT", s.becomes(p, "DECLINED").GetDeclineCode())
	again, err := s.prepare(ref, newIdempotencyKey())
	require.NoError(t, err)
	_, err = s.comeBack(s.choose(again, "pay"))
	require.NoError(t, err)
	s.becomes(again, "CONFIRMED")
}

// A buyer who goes back without paying may still pay on the page.
func TestTossBuyerGoesBack(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.prepared()
	_, err := s.comeBack(s.choose(p, "back"))
	require.NoError(t, err)
	s.sweep(time.Second)
	require.Equal(t, "OPEN", s.get(p).GetStatus())
	_, err = s.comeBack(s.choose(p, "pay"))
	require.NoError(t, err)
	s.becomes(p, "CONFIRMED")
}

// A wrong amount is never charged, even if the buyer changes the page or the return address.
func TestTossAmountIsCompared(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.prepared()
	rightAmount := p.GetAmount()
	p.Amount = 1
	params := s.choose(p, "pay")
	p.Amount = rightAmount
	_, err := s.comeBack(params)
	require.ErrorIs(t, err, errs.ErrAmountMismatch)
	s.sweep(time.Second)
	require.Equal(t, "OPEN", s.get(p).GetStatus())
	require.Zero(t, s.toss.Count(tossfake.Confirms))
	params["amount"] = "55000" // also changed, so that Toss refuses it
	_, err = s.comeBack(params)
	require.NoError(t, err)
	for range 20 {
		s.sweep(time.Minute)
		require.Zero(t, s.charges(p))
	}
}

// hook delivers a webhook with this body.
func (s *tossShop) hook(body []byte) {
	s.t.Helper()
	_, err := s.client.HandleWebhook(s.t.Context(), &paymentv1.HandleWebhookRequest{Provider: toss.Name, Body: body})
	require.NoError(s.t, err)
}

// A webhook only makes the sweeper ask, whoever sends it and however often.
func TestTossWebhooks(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	p, _ := s.prepared()
	forgedWebhook := func(orderID, status string) []byte {
		body, err := json.Marshal(map[string]any{"eventType": "PAYMENT_STATUS_CHANGED", "data": map[string]string{"orderId": orderID, "status": status}})
		require.NoError(t, err)
		return body
	}
	for _, status := range []string{"DONE", "EXPIRED", "ABORTED", "CANCELED", "?"} {
		for range 10 {
			s.hook(forgedWebhook(p.GetOrderId(), status))
		}
		s.sweep(6 * time.Second)
		require.Contains(t, []string{"OPEN", "PENDING"}, s.get(p).GetStatus())
	}
	require.LessOrEqual(t, s.toss.Count(tossfake.Lookups), 5)
	s.hook(forgedWebhook("0190f5e7-0000-7000-8000-000000000000", "DONE"))
	require.EqualValues(t, 1, s.unknownOrders.Load())
	s.hook([]byte("<html>"))

	// After Toss's own webhook, a confirmation whose answer was lost is found.
	_, err := s.comeBack(s.choose(p, "pay"))
	require.NoError(t, err)
	s.toss.Inject(tossfake.Confirms, fakes.Lost)
	s.sweep(6 * time.Second)
	for _, w := range s.toss.Webhooks.Take() {
		s.hook(w.Body)
		s.hook(w.Body)
	}
	s.becomes(p, "CONFIRMED")
	require.Equal(t, 1, s.charges(p))
}

// The HTTP status of an answer does not count: a proxy may have sent it.
func TestTossBehindABrokenProxy(t *testing.T) {
	t.Parallel()
	s := setupToss(t)
	s.toss.Inject(tossfake.Lookups, fakes.Garbled, fakes.Garbled)
	s.toss.Inject(tossfake.Confirms, fakes.Garbled)
	p, _ := s.returned()
	s.becomes(p, "CONFIRMED")
	require.Equal(t, 1, s.charges(p))
}
