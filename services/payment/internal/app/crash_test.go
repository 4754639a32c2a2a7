//go:build failpoint

package app_test

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/app"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

func TestMain(m *testing.M) {
	processtest.Main(m, func() int { return lifecycle.Main("payment", app.Run, app.Migrate) })
}

const (
	gatewayKey = config.Secret("gateway-payment-key-of-32-bytes!!")
	ticketKey  = config.Secret("payment-ticket-key-of-thirty-two-b")
)

// crash is a payment service that is killed and restarted, with its database and dependencies.
type crash struct {
	t        *testing.T
	env      map[string]string
	provider *paymenttest.Provider
	tickets  *paymenttest.Tickets
	client   paymentv1.PaymentServiceClient
	db       *pgx.Conn
	refunds  paymentv1.RefundServiceClient
	// operators is the client of operators' calls about refunds.
	operators paymentv1.RefundAdminServiceClient
}

func newCrash(t *testing.T) *crash {
	t.Helper()
	c := &crash{t: t, provider: paymenttest.NewProvider(t, time.Now), tickets: paymenttest.NewTickets(time.Now), env: environment()}
	provider := httptest.NewServer(c.provider.Handler())
	t.Cleanup(provider.Close)
	prefix := kafkatest.Name("crash") + "."
	address := backendtest.FreeAddr(t)
	for name, value := range map[string]string{
		"DATABASE_URL":       postgrestest.URL(t, postgres.Migrations...).Reveal(),
		"KAFKA_BROKERS":      kafkatest.Config(t).Brokers[0],
		"KAFKA_TOPIC_PREFIX": prefix, "KAFKA_GROUP_PREFIX": prefix,
		"GRPC_ADDR": address, "TICKET_ADDR": c.serveTickets(), "SANDBOX_URL": provider.URL,
		"PAYMENT_PROVIDER_TIMEOUT": "5s", "PAYMENT_VOID_AFTER": "1s", "DRAIN": "0s",
	} {
		c.env[name] = value
	}
	maps.Copy(c.env, kafkatest.Variables())
	t.Cleanup(func() {
		topics := []string{prefix + kafka.RedriveTopic(payment.Group)}
		for _, topic := range []string{"payment-events", "reservation-events"} {
			topics = append(topics, prefix+topic, prefix+topic+kafka.DLQSuffix)
		}
		kafkatest.Delete(t, topics...)
	})
	conn, err := rpc.Dial("gateway", "payment", rpc.Peer{Addr: address, Key: gatewayKey}, rpc.WithTimeout(time.Minute))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c.db, err = pgx.Connect(t.Context(), c.env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.db.Close(context.Background()) })
	c.client, c.refunds = paymentv1.NewPaymentServiceClient(conn), paymentv1.NewRefundServiceClient(conn)
	c.operators = paymentv1.NewRefundAdminServiceClient(conn)
	out, err := processtest.Run(t, c.env, "migrate")
	require.NoError(t, err, out)
	return c
}

func (c *crash) serveTickets() string {
	s, err := rpc.NewServer("ticket", rpc.ServerConfig{Accept: map[string]config.Secret{"payment": ticketKey}}, slog.New(slog.DiscardHandler))
	require.NoError(c.t, err)
	ticketv1.RegisterPayableServiceServer(s, c.tickets)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(c.t, err)
	go func() { _ = s.Serve(l) }()
	c.t.Cleanup(func() { _ = s.Stop(context.Background()) })
	return l.Addr().String()
}

// start runs the service until a failpoint or the end of the test kills it. It is not stopped in
// order, since the test would then wait until the broker has removed it from the consumer group.
func (c *crash) start(failpoints string) *processtest.Process {
	c.t.Helper()
	env := maps.Clone(c.env)
	env[failpoint.Variable] = failpoints
	p := processtest.Start(c.t, env, "serve")
	c.t.Cleanup(p.Kill)
	return p
}

func caller(key string) *commonv1.Caller { return &commonv1.Caller{UserId: "ann", IdempotencyKey: key} }

func (c *crash) prepare(ref string) (p *paymentv1.PrepareResponse) {
	c.t.Helper()
	testkit.UntilNoError(c.t, func() (err error) {
		p, err = c.client.Prepare(c.t.Context(), &paymentv1.PrepareRequest{
			Caller: caller(uuid.NewString()), PaymentType: "reservation", ReferenceId: ref,
		})
		return err
	}, "the service to come up")
	return p
}

func (c *crash) final(id string) (status string) {
	c.t.Helper()
	testkit.Until(c.t, func() bool {
		got, err := c.client.GetPayment(c.t.Context(), &paymentv1.GetPaymentRequest{Caller: caller(""), PaymentId: id})
		status = got.GetStatus()
		return err == nil && (status == "CONFIRMED" || status == "DECLINED")
	}, "the payment to be settled")
	return status
}

func (c *crash) emptyOutbox() {
	c.t.Helper()
	testkit.Until(c.t, func() bool { return c.unpublished() == 0 }, "the outbox to be published")
}

func (c *crash) unpublished() (n int) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow(c.t.Context(), `SELECT count(*) FROM outbox`).Scan(&n))
	return n
}

// published returns the types of all published events in their order, without repetitions: if a
// process dies after it published an event, the next one publishes it again.
func (c *crash) published() (types []string) {
	c.t.Helper()
	c.emptyOutbox()
	seen := map[string]bool{}
	for _, rec := range kafkatest.ReadAll(c.t, c.env["KAFKA_TOPIC_PREFIX"]+"payment-events") {
		if !seen[rec.EventID] {
			seen[rec.EventID] = true
			types = append(types, rec.Type)
		}
	}
	return types
}

// overdue makes the payment and its refunds due at once, so that the test need not wait for the
// charge's timeout or the killed process's lease.
func (c *crash) overdue() {
	c.t.Helper()
	_, err := c.db.Exec(c.t.Context(), `UPDATE payments SET check_at = now() WHERE check_at > now()`)
	require.NoError(c.t, err)
	_, err = c.db.Exec(c.t.Context(), `UPDATE refunds SET due_at = now() WHERE due_at > now()`)
	require.NoError(c.t, err)
}

// At whichever failpoint the process dies, money was taken if and only if the payment is CONFIRMED,
// and that is published.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{
		"payment.confirm.after_confirming": "CONFIRMED", // charged again with the stored key
		"payment.confirm.after_begin":      "CONFIRMED",
		"payment.confirm.after_provider":   "CONFIRMED",
		"payment.confirm.after_commit":     "CONFIRMED",
		"outbox.before_publish":            "CONFIRMED",
		"outbox.after_publish":             "CONFIRMED",
	} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			ref := c.tickets.Add("ann", 55000, time.Minute)
			killed := c.start(point + "@1=exit")
			p := c.prepare(ref)
			// The process may die before it answers, so only the stored outcome is checked.
			_, _ = c.client.Confirm(t.Context(), &paymentv1.ConfirmRequest{
				Caller: caller("confirm"), OrderId: p.GetOrderId(), PaymentKey: "ok-1", Amount: proto.Int64(55000),
			})
			require.ErrorContains(t, killed.Wait(), "killed")
			c.overdue()
			c.start("")
			require.Equal(t, want, c.final(p.GetPaymentId()))
			c.emptyOutbox()

			require.Equal(t, want == "CONFIRMED", c.provider.Order(p.GetOrderId()).Status == "CAPTURED")
			require.LessOrEqual(t, c.provider.Calls(paymenttest.Charges), 1)
			if want == "DECLINED" {
				testkit.Until(t, func() bool { return c.tickets.Hold(ref).Payment == "" }, "the reference to be released")
				return
			}
			rec := kafkatest.Read(t, c.env["KAFKA_TOPIC_PREFIX"]+"payment-events", 1)[0]
			require.Equal(t, "PAYMENT_CONFIRMED", rec.Type)
			require.Equal(t, p.GetOrderId(), string(rec.Key))
		})
	}
}

func (c *crash) confirm(p *paymentv1.PrepareResponse, paymentKey string) (*paymentv1.ConfirmResponse, error) {
	return c.client.Confirm(c.t.Context(), &paymentv1.ConfirmRequest{
		Caller: caller(uuid.NewString()), OrderId: p.GetOrderId(), PaymentKey: paymentKey, Amount: proto.Int64(55000),
	})
}

// The process dies after it has recorded a charge, or that the charge was refunded by hand, and
// before its next step. The next process continues.
func TestCrashWhileRecordingManualRefund(t *testing.T) {
	t.Parallel()
	for point, stored := range map[string]string{"payment.settle.after_captured": "CONFIRMED", "payment.refund.adopted": "REFUNDED"} {
		t.Run(point, func(t *testing.T) {
			t.Parallel()
			c := newCrash(t)
			release := c.provider.Block(paymenttest.Lookups)
			killed := c.start(point + "@1=exit")
			p := c.prepare(c.tickets.Add("ann", 55000, time.Minute))
			got, err := c.confirm(p, "timeout-1")
			require.NoError(t, err)
			require.Equal(t, "PENDING", got.GetStatus())
			c.provider.RefundManually(p.GetOrderId(), 55000)
			release()
			require.ErrorContains(t, killed.Wait(), "killed")
			require.Equal(t, stored, c.stored(p), "it died in between")
			c.overdue()
			c.start("")
			c.untilRefund("DONE")
			require.Equal(t, "REFUNDED", c.stored(p))
			require.Equal(t, []string{"PAYMENT_CONFIRMED", "PAYMENT_REFUNDED"}, c.published())
		})
	}
}

func (c *crash) stored(p *paymentv1.PrepareResponse) (status string) {
	c.t.Helper()
	require.NoError(c.t, c.db.QueryRow(c.t.Context(), `SELECT status FROM payments WHERE id = $1`, p.GetPaymentId()).Scan(&status))
	return status
}

// The process dies after it released the reference of a charge that it did not send, while the
// payment is still CONFIRMING: the next process cannot know that, and charges with the stored key.
func TestCrashWhilePostponingCharge(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	c.env["PAYMENT_CHARGES_AT_ONCE"], c.env["PAYMENT_PROVIDER_TIMEOUT"] = "1", "20s"
	release := c.provider.Block(paymenttest.Charges)
	killed := c.start("payment.confirm.after_release@1=exit")
	first, ref := c.prepare(c.tickets.Add("ann", 55000, time.Minute)), c.tickets.Add("ann", 55000, time.Minute)
	p := c.prepare(ref)
	var calls sync.WaitGroup
	calls.Go(func() { _, _ = c.confirm(first, "ok-1") })
	testkit.Until(t, func() bool { return c.provider.Calls(paymenttest.Charges) == 1 }, "the only charge that may be under way")
	_, _ = c.confirm(p, "ok-1")
	require.ErrorContains(t, killed.Wait(), "killed")
	calls.Wait()
	require.Equal(t, "CONFIRMING", c.stored(p), "it died in between")
	require.Empty(t, c.tickets.Hold(ref).Payment)
	c.overdue()
	_, err := c.db.Exec(t.Context(), `UPDATE payments SET charged_at = now() - interval '1 minute'`)
	require.NoError(t, err)
	release()
	c.start("")
	require.Equal(t, "CONFIRMED", c.final(p.GetPaymentId()))
	require.Equal(t, p.GetPaymentId(), c.tickets.Hold(ref).Payment, "claimed again before the charge")
}

// The process dies after a wrong amount was refunded and before the payment records it: the amount
// is refunded once, and the payment is then declined.
func TestCrashWhileRefundingWrongAmount(t *testing.T) {
	t.Parallel()
	c := newCrash(t)
	ref := c.tickets.Add("ann", 55000, time.Minute)
	c.provider.Fail(paymenttest.Voids, 1000)
	killed := c.start("payment.refund.after_provider@1=exit")
	p := c.prepare(ref)
	got, err := c.client.Confirm(t.Context(), &paymentv1.ConfirmRequest{
		Caller: caller("confirm"), OrderId: p.GetOrderId(), PaymentKey: "lost-1", Amount: proto.Int64(55000),
	})
	require.NoError(t, err)
	require.Equal(t, "PENDING", got.GetStatus())
	c.provider.Capture(p.GetOrderId(), 54999)
	require.ErrorContains(t, killed.Wait(), "killed")
	c.overdue()
	c.start("")
	require.Equal(t, "DECLINED", c.final(p.GetPaymentId()))
	c.untilRefund("DONE")
	require.EqualValues(t, 54999, c.provider.Order(p.GetOrderId()).RefundedAmount)
	require.Len(t, c.provider.RefundsOf(p.GetOrderId()), 1)
}
