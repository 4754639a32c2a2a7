//go:build failpoint

package app_test

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"syscall"
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
	"urr.guru/pkg/rpc"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/payment/internal/app"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc/paymenttest"
)

// child makes this test program be the service instead.
const child = "URR_PAYMENT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		os.Exit(lifecycle.Main("payment", app.Run, app.Migrate))
	}
	os.Exit(m.Run())
}

const (
	gatewayKey = config.Secret("gateway-payment-key-of-32-bytes!!")
	ticketKey  = config.Secret("payment-ticket-key-of-thirty-two-b")
)

// crash is what a service that is killed leaves behind and comes back to.
type crash struct {
	t        *testing.T
	env      map[string]string
	provider *paymenttest.Provider
	tickets  *paymenttest.Tickets
	client   paymentv1.PaymentServiceClient
}

func newCrash(t *testing.T) *crash {
	t.Helper()
	c := &crash{t: t, provider: paymenttest.NewProvider(), tickets: paymenttest.NewTickets(), env: environment()}
	provider := httptest.NewServer(c.provider.Handler())
	t.Cleanup(provider.Close)
	prefix := kafkatest.Name("crash") + "."
	address := backendtest.FreeAddr(t)
	for name, value := range map[string]string{
		"DATABASE_URL":       postgrestest.URL(t, postgres.Migrations...).Reveal(),
		"KAFKA_BROKERS":      kafkatest.Config(t).Brokers[0],
		"KAFKA_TOPIC_PREFIX": prefix, "KAFKA_GROUP_PREFIX": prefix,
		"GRPC_ADDR": address, "TICKET_ADDR": c.serveTickets(), "SANDBOX_URL": provider.URL,
		"PAYMENT_PROVIDER_TIMEOUT": "5s", "PAYMENT_VOID_AFTER": "1s", "DRAIN": "0s", child: "1",
	} {
		c.env[name] = value
	}
	t.Cleanup(func() {
		topics := []string{}
		for _, topic := range []string{"payment-events", "reservation-events"} {
			topics = append(topics, prefix+topic, prefix+topic+kafka.DLQSuffix)
		}
		kafkatest.Delete(t, topics...)
	})
	conn, err := rpc.Dial("gateway", "payment", rpc.Peer{Addr: address, Key: gatewayKey}, rpc.WithTimeout(10*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	c.client = paymentv1.NewPaymentServiceClient(conn)
	out, err := c.command("migrate", "").CombinedOutput()
	require.NoError(t, err, "%s", out)
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

func (c *crash) command(command, failpoints string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], command)
	for name, value := range c.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, failpoint.Variable+"="+failpoints)
	return cmd
}

// start runs the service until the test ends, or until a failpoint kills it.
func (c *crash) start(failpoints string) (exited <-chan error) {
	c.t.Helper()
	cmd := c.command("serve", failpoints)
	require.NoError(c.t, cmd.Start())
	done := make(chan error, 1)
	ended := make(chan struct{})
	go func() {
		done <- cmd.Wait()
		close(ended)
	}()
	c.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-ended
	})
	return done
}

func caller(key string) *commonv1.Caller { return &commonv1.Caller{UserId: "ann", IdempotencyKey: key} }

func (c *crash) prepare(ref string) (p *paymentv1.PrepareResponse) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		var err error
		p, err = c.client.Prepare(c.t.Context(), &paymentv1.PrepareRequest{
			Caller: caller(uuid.NewString()), PaymentType: "reservation", ReferenceId: ref,
		})
		return err == nil
	}, time.Minute, 50*time.Millisecond, "the service never came up")
	return p
}

func (c *crash) final(id string) (status string) {
	c.t.Helper()
	require.Eventually(c.t, func() bool {
		got, err := c.client.GetPayment(c.t.Context(), &paymentv1.GetPaymentRequest{Caller: caller(""), PaymentId: id})
		status = got.GetStatus()
		return err == nil && (status == "CONFIRMED" || status == "DECLINED")
	}, 2*time.Minute, 50*time.Millisecond, "the payment was never settled")
	return status
}

func (c *crash) emptyOutbox() {
	c.t.Helper()
	db, err := pgx.Connect(c.t.Context(), c.env["DATABASE_URL"])
	require.NoError(c.t, err)
	defer func() { _ = db.Close(context.Background()) }()
	require.Eventually(c.t, func() bool {
		var n int
		require.NoError(c.t, db.QueryRow(c.t.Context(), `SELECT count(*) FROM outbox`).Scan(&n))
		return n == 0
	}, time.Minute, 20*time.Millisecond)
}

// Wherever the process dies: money was taken if and only if the payment is confirmed, and then the platform hears of it.
func TestCrashPoints(t *testing.T) {
	t.Parallel()
	for point, want := range map[string]string{
		"payment.confirm.after_confirming": "DECLINED",
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
			// The answer may be lost with the process; what counts is below.
			_, _ = c.client.Confirm(t.Context(), &paymentv1.ConfirmRequest{
				Caller: caller("confirm"), OrderId: p.GetOrderId(), PaymentKey: "ok-1", Amount: proto.Int64(55000),
			})
			select {
			case err := <-killed:
				require.ErrorContains(t, err, "killed")
			case <-time.After(time.Minute):
				t.Fatal("the failpoint was never reached")
			}
			c.start("")
			require.Equal(t, want, c.final(p.GetPaymentId()))
			c.emptyOutbox()

			require.Equal(t, want == "CONFIRMED", c.provider.Order(p.GetOrderId()).Status == "CAPTURED")
			require.LessOrEqual(t, c.provider.Calls("POST /v1/charges"), 1)
			if want == "DECLINED" {
				require.Eventually(t, func() bool { return c.tickets.Hold(ref).Payment == "" }, time.Minute, 20*time.Millisecond)
				return
			}
			rec := kafkatest.Read(t, c.env["KAFKA_TOPIC_PREFIX"]+"payment-events", 1)[0]
			require.Equal(t, "PAYMENT_CONFIRMED", rec.Type)
			require.Equal(t, p.GetOrderId(), string(rec.Key))
		})
	}
}
