package rpc_test

import (
	"context"
	"flag"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	fake "urr.guru/services/payment/fakes/stripe"
	"urr.guru/services/payment/internal/budget"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/stripe"
	"urr.guru/services/payment/internal/ticket"
)

// wholeRush repeats the rush with the published limits and 10, 20 and 40 buyers a second for 20 s.
var wholeRush = flag.Bool("rush", false, "run the whole rush of buyers, which takes minutes") //nolint:gochecknoglobals // a flag

// rush is a shop with two replicas, whose account at Stripe has limits. All clocks are real.
type rush struct {
	t        *testing.T
	pool     *pgxpool.Pool
	stripe   *fake.Server
	tickets  *paymenttest.Tickets
	limits   budget.Limits
	services []*payment.Service
	// opener opens the pages before, without limits.
	opener *payment.Service
}

func newRush(t *testing.T, limits budget.Limits) *rush {
	t.Helper()
	r := &rush{t: t, pool: postgrestest.New(t, postgres.Migrations...), tickets: paymenttest.NewTickets(time.Now), limits: limits}
	server := httptest.NewUnstartedServer(nil)
	address := "http://" + server.Listener.Addr().String()
	r.stripe = fake.NewServer(fake.Options{Now: time.Now, Key: "sk_test_1", WebhookSecret: secret, PublicURL: address})
	server.Config.Handler = r.stripe
	server.Start()
	t.Cleanup(server.Close)
	for range 2 {
		b := budget.New(stripe.Name, limits, postgres.NewBudgets(r.pool), slog.New(slog.DiscardHandler))
		r.services = append(r.services, r.service(address, b))
	}
	r.opener = r.service(address, nil)
	return r
}

// service returns a replica whose calls to Stripe are limited by b.
func (r *rush) service(address string, b *budget.Budget) *payment.Service {
	r.t.Helper()
	conn := rpctest.Serve(r.t, func(s grpc.ServiceRegistrar) { ticketv1.RegisterPayableServiceServer(s, r.tickets) }, withoutTimeout())
	client := stripe.NewClient(stripe.Secrets{Key: "sk_test_1", Webhooks: secret}, stripe.Options{URL: address, ReturnURL: "https://shop/back", Budget: b})
	r.t.Cleanup(client.Close)
	guarded := guard.New(client, guard.Limits{ChargesAtOnce: 256, ChargeTime: client.Capabilities().ChargeTime})
	return payment.New(postgres.NewStore(r.pool, postgres.Options{PagesPerHour: math.MaxInt32}), ticket.NewClient(conn),
		payment.Providers{Default: stripe.Name, ByName: map[string]payment.Provider{stripe.Name: guarded}}, slog.New(slog.DiscardHandler),
		payment.Options{PagesAtOnce: int(4 * r.limits.PerEndpoint)})
}

// open opens n pages, whose buyers authorise the payment if paid is true.
func (r *rush) open(n int, paid bool) []payment.Payment {
	r.t.Helper()
	list := make([]payment.Payment, n)
	var work sync.WaitGroup
	slots := make(chan struct{}, 16)
	for i := range list {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			ref := r.tickets.Add(user, amount, time.Hour)
			p, page, err := r.opener.Prepare(r.t.Context(), payment.PrepareRequest{
				Reference: payment.Reference{Type: payment.Reservation, ID: uuid.MustParse(ref)}, UserID: user, IdempotencyKey: ref,
			})
			if err == nil && paid {
				err = r.pay(page.URL)
			}
			if err != nil {
				r.t.Error(err)
			}
			list[i] = p
		})
	}
	work.Wait()
	return list
}

// pay pays on a page, whose browser then stays there.
func (r *rush) pay(page string) error {
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, page, strings.NewReader("choice="+fake.Close))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	return resp.Body.Close()
}

// count returns how many payments have a status.
func (r *rush) count(status string) (n int) {
	r.t.Helper()
	require.NoError(r.t, r.pool.QueryRow(r.t.Context(), `SELECT count(*) FROM payments WHERE status = $1`, status).Scan(&n))
	return n
}

// run has buyers come back for some seconds, so many in each, while the sweeper also polls the pages of
// others, and waits until all are charged. It returns how long that took.
func (r *rush) run(perSecond, seconds, others int) time.Duration {
	r.t.Helper()
	buyers := r.open(perSecond*seconds, true)
	r.open(others, false)
	_, err := r.pool.Exec(r.t.Context(), `UPDATE payments SET check_at = now() + interval '1 second' WHERE status = 'OPEN' AND id <> ALL ($1)`, idsOf(buyers))
	require.NoError(r.t, err)
	r.stripe.SetLimits(r.limits.PerEndpoint, r.limits.PerSecond)
	ctx, cancel := context.WithCancel(r.t.Context())
	var sweeps sync.WaitGroup
	defer sweeps.Wait()
	defer cancel()
	for _, s := range r.services {
		sweeps.Go(func() { _ = s.Sweep(ctx) })
	}
	began := time.Now()
	tick := time.NewTicker(time.Second / time.Duration(perSecond))
	defer tick.Stop()
	for i, p := range buyers {
		<-tick.C
		_, err := r.services[i%2].Return(r.t.Context(), stripe.Name, map[string]string{"orderId": p.OrderID, "token": p.Token}, false)
		require.NoError(r.t, err)
	}
	testkit.Until(r.t, func() bool { return r.count("CONFIRMED") == len(buyers) }, "all buyers are charged")
	return time.Since(began)
}

func idsOf(list []payment.Payment) (ids []string) {
	for _, p := range list {
		ids = append(ids, p.ID.String())
	}
	return ids
}

// Many more buyers come back than the account's limits allow at once: all of them are charged, each with
// one look-up and one capture, and Stripe refuses no call.
func TestRushOfBuyers(t *testing.T) {
	t.Parallel()
	r := newRush(t, budget.Limits{PerEndpoint: 100, PerSecond: 400})
	r.run(200, 1, 20)
	r.requireInTurn(200)
}

// requireInTurn requires that n buyers were charged within the limits.
func (r *rush) requireInTurn(n int) {
	r.t.Helper()
	require.Zero(r.t, r.count("EXPIRED"))
	require.Zero(r.t, r.stripe.Refused())
	require.Equal(r.t, n, r.stripe.Calls.Count(fake.CaptureIntent))
}

func TestWholeRushOfBuyers(t *testing.T) {
	if !*wholeRush {
		t.Skip("takes minutes: -rush")
	}
	limits := budget.Limits{PerEndpoint: 25, PerSecond: 100}
	for _, perSecond := range []int{10, 20, 40} {
		const seconds = 20
		n := perSecond * seconds
		r := newRush(t, limits)
		took := r.run(perSecond, seconds, 200)
		needs := max(float64(n)/limits.PerEndpoint, seconds)
		t.Logf("%d buyers a second, %d in all: the last is charged after %.1f s, the endpoint needs %.1f s; look-ups %d, captures %d, refused %d, expired %d",
			perSecond, n, took.Seconds(), needs, r.stripe.Calls.Count(fake.GetSession), r.stripe.Calls.Count(fake.CaptureIntent), r.stripe.Refused(), r.count("EXPIRED"))
		r.requireInTurn(n)
		require.LessOrEqual(t, took.Seconds(), 1.2*needs)
	}
}
