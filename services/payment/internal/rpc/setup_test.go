package rpc_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/postgres/postgrestest"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/guard"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/ticket"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

const (
	secret = "sandbox-secret-of-thirty-two-bytes"
	user   = "ann"
	amount = int64(55000)
	// holdTime is the lifetime of a hold.
	holdTime = time.Minute
	// voidAfter is the sandbox client's VoidAfter in most tests.
	voidAfter = 20 * time.Second
	// chargesAtOnce is the limit of concurrent charges.
	chargesAtOnce = 16
)

// unlimited has only a limit of concurrent charges.
var unlimited = guard.Limits{ChargesAtOnce: chargesAtOnce}

// bundle is a payment service on a real database, with a provider and a ticket service that the
// test controls. All use the test's clock, and only sweep runs the sweeper, so that a test decides
// what happens when.
type bundle struct {
	t         *testing.T
	clock     *testkit.Clock
	pool      *pgxpool.Pool
	provider  *paymenttest.Provider
	sandbox   *sandbox.Client // the client of provider
	tickets   *paymenttest.Tickets
	server    *httptest.Server
	client    paymentv1.PaymentServiceClient
	refunds   paymentv1.RefundServiceClient
	operators paymentv1.RefundAdminServiceClient
	admins    paymentv1.PaymentAdminServiceClient
	// disputed lists what payers dispute, and what issuers warn of.
	disputed paymentv1.DisputeAdminServiceClient
	// differences lists and closes the differences that the reconciliation has found.
	differences paymentv1.DifferenceAdminServiceClient
	service     *payment.Service
	// publicURL is the provider's public address; empty: it has no page. wrap decorates the provider.
	publicURL string
	wrap      func(payment.Provider) payment.Provider
	// pagesPerHour is how many pages a user may open in an hour; 0: as many as any test opens.
	pagesPerHour int64
	// unknownOrders counts webhooks about orders that are not stored.
	unknownOrders atomic.Int64
}

// noTimeout is the timeout of calls that a slow machine must not interrupt.
const noTimeout = time.Hour

// withoutTimeout removes the timeout of calls over in-memory connections.
func withoutTimeout() rpctest.Option { return rpctest.WithDial(pkgrpc.WithTimeout(noTimeout)) }

func setup(t *testing.T, options ...func(*bundle)) *bundle {
	t.Helper()
	clock := testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))
	b := &bundle{
		t: t, clock: clock, pool: postgrestest.New(t, postgres.Migrations...),
		provider: paymenttest.NewProvider(t, clock.Now), tickets: paymenttest.NewTickets(clock.Now),
	}
	for _, option := range options {
		option(b)
	}
	b.server = httptest.NewServer(b.provider.Handler())
	t.Cleanup(b.server.Close)
	b.service = b.newService(voidAfter)
	conn := rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		rpc.Register(r, b.service)
		rpc.RegisterDifferences(r, b.store())
	}, withoutTimeout())
	b.differences = paymentv1.NewDifferenceAdminServiceClient(conn)
	b.client, b.refunds, b.operators = paymentv1.NewPaymentServiceClient(conn), paymentv1.NewRefundServiceClient(conn), paymentv1.NewRefundAdminServiceClient(conn)
	b.disputed = paymentv1.NewDisputeAdminServiceClient(conn)
	b.admins = paymentv1.NewPaymentAdminServiceClient(conn)
	return b
}

// newService makes a replica of the payment service.
func (b *bundle) newService(voidAfter time.Duration) *payment.Service {
	b.t.Helper()
	conn := b.dialTickets()
	provider := sandbox.NewClient(b.server.URL, secret, sandbox.Options{
		Now: b.clock.Now, Timeout: noTimeout, VoidAfter: voidAfter, PublicURL: b.publicURL, ReturnURL: "https://shop/back",
	})
	b.sandbox = provider
	b.t.Cleanup(provider.Close)
	guarded := payment.Provider(guard.New(provider, unlimited))
	if b.wrap != nil {
		guarded = b.wrap(guarded)
	}
	s := payment.New(postgres.NewStore(b.pool, postgres.Options{Now: b.clock.Now, PagesPerHour: 1000}), ticket.NewClient(conn), onlyProvider(guarded),
		slog.New(slog.NewTextHandler(b.t.Output(), nil)),
		payment.Options{Now: b.clock.Now, Observe: payment.Observer{UnknownOrder: func() { b.unknownOrders.Add(1) }}})
	b.t.Cleanup(func() { _ = s.Wait(context.Background()) })
	return s
}

// onlyProvider returns Providers with the single provider p.
func onlyProvider(p payment.Provider) payment.Providers {
	return payment.Providers{Default: sandbox.Name, ByName: map[string]payment.Provider{sandbox.Name: p}}
}

// dialTickets connects to the fake ticket service.
func (b *bundle) dialTickets() grpc.ClientConnInterface {
	b.t.Helper()
	return rpctest.Serve(b.t, func(r grpc.ServiceRegistrar) { ticketv1.RegisterPayableServiceServer(r, b.tickets) }, withoutTimeout())
}

func caller(userID, key string) *commonv1.Caller {
	return &commonv1.Caller{UserId: userID, IdempotencyKey: key}
}

func newIdempotencyKey() string { return uuid.NewString() }

// prepared opens a payment for a new hold, and returns the hold's id too.
func (b *bundle) prepared() (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	ref := b.tickets.Add(user, amount, holdTime)
	p, err := b.prepare(ref, newIdempotencyKey())
	require.NoError(b.t, err)
	return p, ref
}

func (b *bundle) prepare(ref, key string) (*paymentv1.PrepareResponse, error) {
	return b.client.Prepare(b.t.Context(), &paymentv1.PrepareRequest{Caller: caller(user, key), PaymentType: "reservation", ReferenceId: ref})
}

func (b *bundle) confirm(p *paymentv1.PrepareResponse, paymentKey, key string) (*paymentv1.ConfirmResponse, error) {
	return b.client.Confirm(b.t.Context(), &paymentv1.ConfirmRequest{
		Caller: caller(user, key), OrderId: p.GetOrderId(), PaymentKey: paymentKey, Amount: proto.Int64(p.GetAmount()),
	})
}

// confirmed pays for a new hold, and returns the hold's id too.
func (b *bundle) confirmed() (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	p, ref := b.prepared()
	got, err := b.confirm(p, "ok-1", newIdempotencyKey())
	require.NoError(b.t, err)
	require.Equal(b.t, "CONFIRMED", got.GetStatus())
	return p, ref
}

func (b *bundle) get(p *paymentv1.PrepareResponse) *paymentv1.Payment {
	b.t.Helper()
	got, err := b.client.GetPayment(b.t.Context(), &paymentv1.GetPaymentRequest{Caller: caller(user, ""), PaymentId: p.GetPaymentId()})
	require.NoError(b.t, err)
	return got
}

// untilCharging waits for n charges at the provider.
func (b *bundle) untilCharging(n int) {
	b.t.Helper()
	testkit.Until(b.t, func() bool { return b.provider.Calls(paymenttest.Charges) == n }, "%d charges are under way", n)
}

// sweep advances the clock and processes what is then due.
func (b *bundle) sweep(after time.Duration) {
	b.t.Helper()
	b.clock.Advance(after)
	b.service.SweepOnce(b.t.Context())
}

// becomes sweeps once a second, as in production, until the payment has the status, for at most a
// minute.
func (b *bundle) becomes(p *paymentv1.PrepareResponse, status string) *paymentv1.Payment {
	b.t.Helper()
	got := b.get(p)
	for second := 0; second < 60 && got.GetStatus() != status; second++ {
		b.sweep(time.Second)
		got = b.get(p)
	}
	require.Equal(b.t, status, got.GetStatus())
	return got
}

func (b *bundle) webhook(eventType, orderID string) error {
	headers, body := paymenttest.Webhook(secret, eventType, orderID, b.clock.Now())
	_, err := b.client.HandleWebhook(b.t.Context(), &paymentv1.HandleWebhookRequest{Provider: sandbox.Name, Headers: headers, Body: body})
	return err
}

// events returns the Kafka events of a payment in the outbox, oldest first.
func (b *bundle) events(p *paymentv1.PrepareResponse) []*eventsv1.PaymentEvent {
	b.t.Helper()
	rows, err := b.pool.Query(b.t.Context(), `SELECT payload FROM outbox WHERE topic = 'payment-events' AND key = $1 ORDER BY id`, p.GetOrderId())
	require.NoError(b.t, err)
	payloads, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(b.t, err)
	events := make([]*eventsv1.PaymentEvent, len(payloads))
	for i, payload := range payloads {
		events[i] = &eventsv1.PaymentEvent{}
		require.NoError(b.t, kafka.Decode(kafka.Record{Value: []byte(payload)}, events[i]))
	}
	return events
}

func (b *bundle) eventTypes(p *paymentv1.PrepareResponse) []string {
	b.t.Helper()
	types := []string{}
	for _, e := range b.events(p) {
		types = append(types, e.GetType())
	}
	return types
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	_, err := b.pool.Exec(b.t.Context(), sql, args...)
	require.NoError(b.t, err)
}
