package app_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/wire"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/app"
	"urr.guru/services/ticket/internal/postgres"
)

// child makes this test program be the service instead.
const child = "URR_TICKET_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		os.Exit(lifecycle.Main("ticket", app.Run, app.Migrate))
	}
	os.Exit(m.Run())
}

const (
	gatewayKey = config.Secret("gateway-ticket-key-of-thirty-two-b")
	queueKey   = config.Secret("queue-ticket-key-of-thirty-two-byte")
	paymentKey = config.Secret("payment-ticket-key-of-thirty-two-b")
)

// process is the whole service as a process of its own, on a database and topics of its own.
type process struct {
	t      *testing.T
	env    map[string]string
	prefix string
	db     *pgx.Conn
	ticketv1.EventAdminServiceClient
	ticketv1.HoldServiceClient
	ticketv1.ReservationServiceClient
	ticketv1.TicketServiceClient
	payables ticketv1.PayableServiceClient
}

func newProcess(t *testing.T) *process {
	t.Helper()
	p := &process{t: t, env: environment(), prefix: kafkatest.Name("ticket") + "."}
	address := backendtest.FreeAddr(t)
	for name, value := range map[string]string{
		"DATABASE_URL":       postgrestest.URL(t, postgres.Migrations...).Reveal(),
		"KAFKA_BROKERS":      kafkatest.Config(t).Brokers[0],
		"KAFKA_TOPIC_PREFIX": p.prefix, "KAFKA_GROUP_PREFIX": p.prefix,
		"GRPC_ADDR": address, "SWEEP_INTERVAL": "100ms", "DRAIN": "0s", child: "1",
	} {
		p.env[name] = value
	}
	t.Cleanup(func() {
		var topics []string
		for _, topic := range []string{"payment-events", "reservation-events"} {
			topics = append(topics, p.prefix+topic, p.prefix+topic+kafka.DLQSuffix)
		}
		kafkatest.Delete(t, topics...)
	})
	out, err := p.command("migrate", "").CombinedOutput()
	require.NoError(t, err, "%s", out)
	// The other topic is payment's.
	require.NoError(t, kafka.EnsureTopics(t.Context(), p.kafka(), kafka.Topic{Name: "payment-events"}))
	p.db, err = pgx.Connect(t.Context(), p.env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.db.Close(context.Background()) })

	gateway, err := rpc.Dial("gateway", "ticket", rpc.Peer{Addr: address, Key: gatewayKey}, rpc.WithTimeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = gateway.Close() })
	payment, err := rpc.Dial("payment", "ticket", rpc.Peer{Addr: address, Key: paymentKey}, rpc.WithTimeout(30*time.Second))
	require.NoError(t, err)
	t.Cleanup(func() { _ = payment.Close() })
	p.EventAdminServiceClient, p.HoldServiceClient = ticketv1.NewEventAdminServiceClient(gateway), ticketv1.NewHoldServiceClient(gateway)
	p.ReservationServiceClient, p.TicketServiceClient = ticketv1.NewReservationServiceClient(gateway), ticketv1.NewTicketServiceClient(gateway)
	p.payables = ticketv1.NewPayableServiceClient(payment)
	return p
}

func (p *process) kafka() kafka.Config {
	cfg := kafkatest.Config(p.t)
	cfg.TopicPrefix, cfg.GroupPrefix = p.prefix, p.prefix
	return cfg
}

func (p *process) command(command, failpoints string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], command)
	cmd.Env = append(os.Environ(), "URR_FAILPOINTS="+failpoints)
	for name, value := range p.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	return cmd
}

// start runs the service until the test ends, and waits until it answers. The channel tells how it ended.
func (p *process) start(failpoints string) (ended chan error, stop func()) {
	p.t.Helper()
	log, err := os.CreateTemp(p.t.TempDir(), "ticket-*.log")
	require.NoError(p.t, err)
	cmd := p.command("serve", failpoints)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(p.t, cmd.Start())
	ended = make(chan error, 1)
	exited := make(chan struct{})
	go func() {
		ended <- cmd.Wait()
		close(exited)
	}()
	stop = func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-exited:
		case <-time.After(30 * time.Second):
			_ = cmd.Process.Kill()
			<-exited
		}
	}
	p.t.Cleanup(func() {
		stop()
		_ = log.Close()
		if p.t.Failed() {
			out, _ := os.ReadFile(log.Name())
			p.t.Logf("%s", out)
		}
	})
	require.Eventually(p.t, func() bool {
		_, err := p.ListMyTickets(p.t.Context(), &ticketv1.ListMyTicketsRequest{Caller: &commonv1.Caller{UserId: "u"}})
		return err == nil
	}, 60*time.Second, 50*time.Millisecond, "the service does not answer")
	return ended, stop
}

func (p *process) putSale(seating string, hold int32, sections ...*ticketv1.SectionSpec) {
	p.t.Helper()
	now := time.Now()
	_, err := p.PutEvent(p.t.Context(), &ticketv1.PutEventRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, EventId: "e", Title: "Concert",
		StartsAt: timestamppb.New(now.Add(48 * time.Hour)), SalesOpenAt: timestamppb.New(now.Add(-time.Hour)),
		SalesCloseAt: timestamppb.New(now.Add(24 * time.Hour)), Seating: seating, Currency: "KRW", MaxPerUser: 4, HoldSeconds: &hold,
		Sections: sections,
	})
	require.NoError(p.t, err)
}

func inside(user string) *commonv1.Caller {
	return &commonv1.Caller{UserId: user, EventId: "e", SlotId: "slot-" + user, IdempotencyKey: "hold"}
}

// hold asks for seats; the answer may be lost with the process.
func (p *process) hold(user string, seats ...string) (*ticketv1.Reservation, error) {
	res, err := p.HoldSeats(p.t.Context(), &ticketv1.HoldSeatsRequest{
		Items: []*ticketv1.HoldSeatsItem{{Caller: inside(user), EventId: "e", SeatIds: seats}},
	})
	if err != nil {
		return nil, err
	}
	if problem := res.GetResults()[0].GetProblem(); problem != nil {
		return nil, fmt.Errorf("refused: %s", problem.GetReason())
	}
	return res.GetResults()[0].GetReservation(), nil
}

func (p *process) mustHold(user string, seats ...string) *ticketv1.Reservation {
	p.t.Helper()
	r, err := p.hold(user, seats...)
	require.NoError(p.t, err)
	return r
}

// pay publishes what payment would: the reservation's whole amount was taken.
func (p *process) pay(r *ticketv1.Reservation, payment string) {
	p.t.Helper()
	p.publish(&eventsv1.PaymentEvent{
		Type: "PAYMENT_CONFIRMED", PaymentId: payment, OrderId: "order-" + payment, SagaId: payment, ReferenceId: r.GetReservationId(),
		UserId: r.GetUserId(), EventId: r.GetEventId(), Amount: r.GetAmount(), Currency: r.GetCurrency(), Version: 1, OccurredAt: timestamppb.Now(),
	})
}

func (p *process) refund(r *ticketv1.Reservation, payment, cause string) {
	p.t.Helper()
	p.publish(&eventsv1.PaymentEvent{
		Type: "PAYMENT_REFUNDED", PaymentType: "reservation", PaymentId: payment, OrderId: "order-" + payment, ReferenceId: r.GetReservationId(),
		UserId: r.GetUserId(), EventId: r.GetEventId(), Amount: r.GetAmount(), Currency: r.GetCurrency(), Version: 2, OccurredAt: timestamppb.Now(),
		RefundId: proto.String(uuid.NewString()), Cause: &cause,
	})
}

func (p *process) publish(e *eventsv1.PaymentEvent) {
	p.t.Helper()
	value, err := wire.Marshal(e)
	require.NoError(p.t, err)
	p.publishRaw(e.GetOrderId(), value, kafka.EventHeaders(uuid.New(), "payment", e.GetType(), time.Now()))
}

func (p *process) publishRaw(key string, value []byte, headers map[string]string) {
	p.t.Helper()
	producer, err := kafka.NewProducer(p.kafka(), "test")
	require.NoError(p.t, err)
	defer func() { _ = producer.Close(context.Background()) }()
	require.NoError(p.t, producer.Publish(p.t.Context(), kafka.Record{Topic: "payment-events", Key: []byte(key), Value: value, Headers: headers}))
}

// becomes waits until the reservation has the status.
func (p *process) becomes(id, status string) {
	p.t.Helper()
	var last string
	require.Eventually(p.t, func() bool {
		err := p.db.QueryRow(p.t.Context(), `SELECT status FROM reservations WHERE reservation_id = $1`, id).Scan(&last)
		return err == nil && last == status
	}, 60*time.Second, 50*time.Millisecond, "still not %s", status)
}

// settled waits until n payment events have been settled.
func (p *process) settled(n int) {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.count(`SELECT count(*) FROM processed_events`) == n }, 60*time.Second, 50*time.Millisecond)
}

func (p *process) count(sql string, args ...any) (n int) {
	p.t.Helper()
	require.NoError(p.t, p.db.QueryRow(p.t.Context(), sql, args...).Scan(&n))
	return n
}

// published waits until the outbox is empty, and returns the types of a reservation's events in their order, repetitions left out.
func (p *process) published(id string) []string {
	p.t.Helper()
	require.Eventually(p.t, func() bool { return p.count(`SELECT count(*) FROM outbox`) == 0 }, 60*time.Second, 50*time.Millisecond)
	var types []string
	seen := make(map[string]bool)
	for _, rec := range p.all("reservation-events") {
		if string(rec.Key) == id && !seen[rec.EventID] {
			seen[rec.EventID] = true
			types = append(types, rec.Type)
		}
	}
	return types
}

// all reads a topic from its beginning to its present end.
func (p *process) all(topic string) []kafka.Record {
	p.t.Helper()
	client, err := kgo.NewClient(kgo.SeedBrokers(p.kafka().Brokers...))
	require.NoError(p.t, err)
	defer client.Close()
	ends, err := kadm.NewClient(client).ListEndOffsets(p.t.Context(), p.prefix+topic)
	require.NoError(p.t, err)
	n := 0
	ends.Each(func(o kadm.ListedOffset) { n += int(o.Offset) })
	return kafkatest.Read(p.t, p.prefix+topic, n)
}
