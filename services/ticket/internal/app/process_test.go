package app_test

import (
	"context"
	"fmt"
	"maps"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/processtest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	kafkav1 "urr.guru/proto/gen/urr/kafka/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/app"
)

func TestMain(m *testing.M) {
	processtest.Main(m, func() int { return lifecycle.Main("ticket", app.Run, app.Migrate, app.Kafka()) })
}

const (
	gatewayKey = config.Secret("gateway-ticket-key-of-thirty-two-b")
	queueKey   = config.Secret("queue-ticket-key-of-thirty-two-byte")
	statsKey   = config.Secret("stats-ticket-key-of-thirty-two-byt")
	paymentKey = config.Secret("payment-ticket-key-of-thirty-two-b")
)

// service runs the ticket service in processes of its own, with a database and topics of its own.
// Tests that share it use different events.
type service struct {
	t        *testing.T
	env      map[string]string
	kafka    kafka.Config
	db       *pgx.Conn
	producer *kafka.Producer
	event    string
	ticketv1.EventAdminServiceClient
	ticketv1.HoldServiceClient
	ticketv1.ReservationServiceClient
	ticketv1.TicketServiceClient
	payables ticketv1.PayableServiceClient
	letters  kafkav1.DeadLetterServiceClient
}

// newService prepares a service, its topics, and its database with the migrations sets.
func newService(t *testing.T, sets ...postgres.MigrationSet) *service {
	t.Helper()
	s := &service{t: t, env: environment(), kafka: kafkatest.Config(t), event: "e"}
	prefix := kafkatest.Name("ticket") + "."
	s.kafka.TopicPrefix, s.kafka.GroupPrefix = prefix, prefix
	address := backendtest.FreeAddr(t)
	maps.Copy(s.env, map[string]string{
		"DATABASE_URL":       postgrestest.URL(t, sets...).Reveal(),
		"KAFKA_BROKERS":      s.kafka.Brokers[0],
		"KAFKA_TOPIC_PREFIX": prefix, "KAFKA_GROUP_PREFIX": prefix,
		"GRPC_ADDR": address, "SWEEP_INTERVAL": "100ms", "DRAIN": "0s",
	})
	maps.Copy(s.env, kafkatest.Variables())
	t.Cleanup(func() {
		topics := []string{prefix + kafka.RedriveTopic("ticket-service-group")}
		for _, topic := range []string{"payment-events", "reservation-events"} {
			topics = append(topics, prefix+topic, prefix+topic+kafka.DLQSuffix)
		}
		kafkatest.Delete(t, topics...)
	})
	s.ensureTopic("payment-events") // which the payment service makes in production
	var err error
	s.db, err = pgx.Connect(t.Context(), s.env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.db.Close(context.Background()) })
	s.producer = kafkatest.ProducerOf(t, s.kafka)
	s.dial(address)
	return s
}

func (s *service) ensureTopic(name string) {
	s.t.Helper()
	require.NoError(s.t, kafka.EnsureTopics(s.t.Context(), s.kafka, kafka.Topic{Name: name}))
}

func (s *service) dial(address string) {
	s.t.Helper()
	gateway, err := rpc.Dial("gateway", "ticket", rpc.Peer{Addr: address, Key: gatewayKey}, rpc.WithTimeout(time.Minute))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = gateway.Close() })
	payment, err := rpc.Dial("payment", "ticket", rpc.Peer{Addr: address, Key: paymentKey}, rpc.WithTimeout(time.Minute))
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = payment.Close() })
	s.EventAdminServiceClient, s.HoldServiceClient = ticketv1.NewEventAdminServiceClient(gateway), ticketv1.NewHoldServiceClient(gateway)
	s.ReservationServiceClient, s.TicketServiceClient = ticketv1.NewReservationServiceClient(gateway), ticketv1.NewTicketServiceClient(gateway)
	s.letters = kafkav1.NewDeadLetterServiceClient(gateway)
	s.payables = ticketv1.NewPayableServiceClient(payment)
}

// forSubtest returns the same service for a subtest, with an event of its own.
func (s *service) forSubtest(t *testing.T, event string) *service {
	t.Helper()
	shared := *s
	shared.t, shared.event = t, event
	var err error
	shared.db, err = pgx.Connect(t.Context(), s.env["DATABASE_URL"])
	require.NoError(t, err)
	t.Cleanup(func() { _ = shared.db.Close(context.Background()) })
	return &shared
}

// start starts a process of the service and waits until it answers. failpoints are where the
// process fails or dies; empty: nowhere.
func (s *service) start(failpoints string) *processtest.Process {
	s.t.Helper()
	env := maps.Clone(s.env)
	if failpoints != "" {
		env["URR_FAILPOINTS"] = failpoints
	}
	p := processtest.Start(s.t, env, "serve")
	testkit.UntilNoError(s.t, func() error {
		select {
		case <-p.Ended():
			require.FailNow(s.t, "the service ended while it started")
		default:
		}
		_, err := s.ListMyTickets(s.t.Context(), &ticketv1.ListMyTicketsRequest{Caller: &commonv1.Caller{UserId: "u"}})
		return err
	}, "the service answers")
	return p
}

func (s *service) putSale(seating string, sections ...*ticketv1.SectionSpec) {
	s.t.Helper()
	now := time.Now()
	_, err := s.PutEvent(s.t.Context(), &ticketv1.PutEventRequest{
		Caller: &commonv1.Caller{UserId: "op", Roles: []string{"admin"}}, EventId: s.event, Spec: &ticketv1.EventSpec{
			Title: "Concert", StartsAt: timestamppb.New(now.Add(48 * time.Hour)), SalesOpenAt: timestamppb.New(now.Add(-time.Hour)),
			SalesCloseAt: timestamppb.New(now.Add(24 * time.Hour)), Seating: seating, Currency: "KRW", MaxPerUser: 4,
			ReturnWithin: new(int32(0)), Sections: sections,
		},
	})
	require.NoError(s.t, err)
}

func (s *service) callerWithSlot(user string) *commonv1.Caller {
	return &commonv1.Caller{UserId: user, EventId: s.event, SlotId: "slot-" + user, IdempotencyKey: "hold"}
}

// hold requests seats. The call fails if the process dies before it answers.
func (s *service) hold(user string, seats ...string) (*ticketv1.Reservation, error) {
	return onlyResult(s.HoldSeats(s.t.Context(), &ticketv1.HoldSeatsRequest{
		Items: []*ticketv1.HoldSeatsItem{{Caller: s.callerWithSlot(user), EventId: s.event, SeatIds: seats}},
	}))
}

func onlyResult(res *ticketv1.HoldResponse, err error) (*ticketv1.Reservation, error) {
	if err != nil {
		return nil, err
	}
	if problem := res.GetResults()[0].GetProblem(); problem != nil {
		return nil, fmt.Errorf("refused: %s", problem.GetReason())
	}
	return res.GetResults()[0].GetReservation(), nil
}

func (s *service) mustHold(user string, seats ...string) *ticketv1.Reservation {
	s.t.Helper()
	r, err := s.hold(user, seats...)
	require.NoError(s.t, err)
	return r
}

func (s *service) ticketsOf(user string) []*ticketv1.Ticket {
	s.t.Helper()
	page, err := s.ListMyTickets(s.t.Context(), &ticketv1.ListMyTicketsRequest{Caller: &commonv1.Caller{UserId: user}})
	require.NoError(s.t, err)
	return page.GetItems()
}

// endHold ends a hold by a change of its row: the process uses the database's clock, which no test
// can set.
func (s *service) endHold(r *ticketv1.Reservation) {
	s.t.Helper()
	_, err := s.db.Exec(s.t.Context(), `
		WITH r AS (UPDATE reservations SET expires_at = now() WHERE reservation_id = $1 RETURNING expires_at)
		UPDATE seats SET held_until = r.expires_at FROM r WHERE reservation_id = $1`, r.GetReservationId())
	require.NoError(s.t, err)
}

// waitForStatus waits until the reservation has the status.
func (s *service) waitForStatus(r *ticketv1.Reservation, status string) {
	s.t.Helper()
	id := uuid.MustParse(r.GetReservationId())
	testkit.Until(s.t, func() bool {
		return s.count(`SELECT count(*) FROM reservations WHERE reservation_id = $1 AND status = $2`, id, status) == 1
	}, "the reservation becomes %s", status)
}

func (s *service) count(sql string, args ...any) (n int) {
	s.t.Helper()
	require.NoError(s.t, s.db.QueryRow(s.t.Context(), sql, args...).Scan(&n))
	return n
}
