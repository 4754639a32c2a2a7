package rpc_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/postgres/postgrestest"
	pkgrpc "urr.guru/pkg/rpc"
	"urr.guru/pkg/rpc/rpctest"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/rpc/paymenttest"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/ticket"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	secret = "sandbox-secret-of-thirty-two-bytes"
	user   = "ann"
	amount = int64(55000)

	charges = "POST /v1/charges"
	refunds = "POST /v1/charges/{orderId}/refunds"
	lookups = "GET /v1/charges/{orderId}"
	voids   = "POST /v1/charges/{orderId}/void"
)

// bundle is a payment service on a real database, between a provider and a ticket service that do as they are told.
type bundle struct {
	t        *testing.T
	pool     *pgxpool.Pool
	provider *paymenttest.Provider
	tickets  *paymenttest.Tickets
	server   *httptest.Server
	client   paymentv1.PaymentServiceClient
	service  *payment.Service
}

// patience is how long a test waits for what comes soon, unless the machine is busy or something is wrong.
const patience = 30 * time.Second

// options of most tests: what the provider answers is heard, and what has to be waited for comes soon.
func options() payment.Options {
	return payment.Options{Provider: sandbox.Name, ProviderTimeout: patience, VoidAfter: 100 * time.Millisecond}
}

// impatient is for tests in which the provider does not answer.
func impatient() payment.Options {
	o := options()
	o.ProviderTimeout = time.Second
	return o
}

// unhurried calls have the time that the machine needs.
func unhurried() rpctest.Option { return rpctest.WithDial(pkgrpc.WithTimeout(2 * patience)) }

func setup(t *testing.T, opts payment.Options) *bundle {
	t.Helper()
	b := &bundle{
		t: t, pool: postgrestest.New(t, postgres.Migrations...),
		provider: paymenttest.NewProvider(), tickets: paymenttest.NewTickets(),
	}
	b.server = httptest.NewServer(b.provider.Handler())
	t.Cleanup(b.server.Close)
	b.service = b.newService(opts)
	b.client = paymentv1.NewPaymentServiceClient(rpctest.Serve(t, func(r grpc.ServiceRegistrar) {
		paymentv1.RegisterPaymentServiceServer(r, rpc.New(b.service))
	}, unhurried()))
	return b
}

// newService is one replica, with its sweeper.
func (b *bundle) newService(opts payment.Options) *payment.Service {
	b.t.Helper()
	conn := rpctest.Serve(b.t, func(r grpc.ServiceRegistrar) { ticketv1.RegisterPayableServiceServer(r, b.tickets) }, unhurried())
	provider := sandbox.NewClient(b.server.URL, secret)
	b.t.Cleanup(provider.Close)
	payments := postgres.NewStore(b.pool)
	s := payment.New(payments, postgres.NewRefunds(payments), ticket.NewClient(conn), provider, provider, func() {},
		slog.New(slog.NewTextHandler(b.t.Output(), nil)), opts)
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() { _ = s.Sweep(ctx) })
	b.t.Cleanup(func() {
		cancel()
		work.Wait()
		_ = s.Wait(context.Background())
	})
	return s
}

func caller(userID, key string) *commonv1.Caller {
	return &commonv1.Caller{UserId: userID, IdempotencyKey: key}
}

func newKey() string { return uuid.NewString() }

// prepared opens a payment of a new hold.
func (b *bundle) prepared() (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	ref := b.tickets.Add(user, amount, time.Minute)
	p, err := b.prepare(ref, newKey())
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

// confirmed pays for a new hold.
func (b *bundle) confirmed() (*paymentv1.PrepareResponse, string) {
	b.t.Helper()
	p, ref := b.prepared()
	got, err := b.confirm(p, "ok-1", newKey())
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

func (b *bundle) becomes(p *paymentv1.PrepareResponse, status string) *paymentv1.Payment {
	b.t.Helper()
	require.Eventually(b.t, func() bool { return b.get(p).GetStatus() == status }, 2*patience, 20*time.Millisecond,
		"payment never became %s", status)
	return b.get(p)
}

func (b *bundle) webhook(eventType, orderID string) error {
	headers, body := paymenttest.Webhook(secret, eventType, orderID, time.Now())
	_, err := b.client.HandleWebhook(b.t.Context(), &paymentv1.HandleWebhookRequest{Provider: sandbox.Name, Headers: headers, Body: body})
	return err
}

// events are the events of a payment, in order.
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
