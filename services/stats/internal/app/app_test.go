package app_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/wire"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/app"
	"urr.guru/services/stats/internal/figures"
	store "urr.guru/services/stats/internal/postgres"
)

const (
	reservations = "reservation-events"
	payments     = "payment-events"
	transfers    = "transfer-events"
	memberships  = "membership-events"
	rewards      = "reward-events"
	requests     = "request-events"
	operators    = "audit-events"
	key          = config.Secret("a key of at least thirty-two bytes")
)

// installation is the database, Kafka topics and groups of one test, named with a unique prefix. As
// if the reward and worker services were not installed, it has no topics of rewards and requests.
type installation struct {
	cfg      app.Config
	pool     *pgxpool.Pool
	producer *kafka.Producer
	stats    statsv1.StatsServiceClient
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	w := &installation{cfg: app.Config{
		Config:   lifecycle.Config{GRPCAddr: backendtest.FreeAddr(t), ShutdownTimeout: time.Hour},
		RPC:      rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": key}},
		Kafka:    kafkatest.Config(t),
		Postgres: postgres.Config{URL: postgrestest.URL(t), MaxConns: 8},
		Ticket:   rpc.Peer{Addr: backendtest.FreeAddr(t), Key: key}, // nothing listens there
	}}
	w.cfg.Kafka.TopicPrefix, w.cfg.Kafka.GroupPrefix = kafkatest.Name("stats")+".", kafkatest.Name("stats")+"."
	require.NoError(t, kafka.EnsureTopics(t.Context(), w.cfg.Kafka,
		kafka.Topic{Name: reservations}, kafka.Topic{Name: payments}, kafka.Topic{Name: operators}, kafka.TopicOfRedriven(figures.Group)))
	t.Cleanup(func() {
		kafkatest.Delete(t, w.cfg.Kafka.TopicPrefix+kafka.RedriveTopic(figures.Group))
		for _, topic := range []string{reservations, payments, transfers, memberships, rewards, requests, operators} {
			kafkatest.Delete(t, w.cfg.Kafka.TopicPrefix+topic, w.cfg.Kafka.TopicPrefix+topic+kafka.DLQSuffix)
		}
	})
	w.producer = kafkatest.ProducerOf(t, w.cfg.Kafka)
	var err error
	w.pool, err = postgres.Open(t.Context(), w.cfg.Postgres, "test", store.SearchPath())
	require.NoError(t, err)
	t.Cleanup(w.pool.Close)
	conn, err := rpc.Dial("gateway", "stats", rpc.Peer{Addr: w.cfg.GRPCAddr, Key: key})
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	w.stats = statsv1.NewStatsServiceClient(conn)
	return w
}

// publish publishes protobuf messages or raw bytes, with the ids <id>-0, <id>-1, ….
func (w *installation) publish(t *testing.T, topic, id string, values ...any) {
	t.Helper()
	require.NoError(t, w.producer.Publish(t.Context(), recordsOf(t, topic, id, values...)...))
}

func recordsOf(t *testing.T, topic, id string, values ...any) []kafka.Record {
	t.Helper()
	recs := make([]kafka.Record, len(values))
	for i, v := range values {
		raw, ok := v.([]byte)
		if m, isMessage := v.(proto.Message); !ok && isMessage {
			var err error
			raw, err = wire.Marshal(m)
			require.NoError(t, err)
		}
		recs[i] = kafka.Record{
			Topic: topic, Key: fmt.Append(nil, i), Value: raw, Headers: map[string]string{kafka.HeaderID: fmt.Sprintf("%s-%d", id, i)},
		}
	}
	return recs
}

// serve runs the service until stop is called or the test ends. The service must end without an
// error.
func (w *installation) serve(t *testing.T) (stop func()) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	require.NoError(t, app.Migrate(t.Context(), &w.cfg, log))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, &w.cfg, log) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

func reservation(eventID, kind string, quantity int64, at time.Time) *eventsv1.ReservationEvent {
	return &eventsv1.ReservationEvent{Type: kind, EventId: eventID, Quantity: quantity, OccurredAt: timestamppb.New(at)}
}

func payment(kind string, amount int64, at time.Time) *eventsv1.PaymentEvent {
	return &eventsv1.PaymentEvent{Type: kind, PaymentType: "reservation", EventId: "e", Amount: amount, Currency: "KRW", OccurredAt: timestamppb.New(at)}
}

func reward(kind string, points int64, at time.Time) *eventsv1.RewardEvent {
	return &eventsv1.RewardEvent{Type: kind, EventId: "campaign", RewardKind: "POINT", Value: points, OccurredAt: timestamppb.New(at)}
}

func request(kind string, version int64, at time.Time) *eventsv1.RequestEvent {
	return &eventsv1.RequestEvent{Type: kind, RequestId: "request", EventId: "campaign", Version: version, OccurredAt: timestamppb.New(at)}
}

// requireFigures waits until operators get the wanted figures. It ignores updated_at.
func (w *installation) requireFigures(t *testing.T, want *statsv1.OperatorEventStats) {
	t.Helper()
	req := &statsv1.GetEventStatsForOperatorsRequest{
		Caller: &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}, EventId: want.GetCounts().GetEventId(),
	}
	testkit.UntilNoError(t, func() error {
		got, err := w.stats.GetEventStatsForOperators(t.Context(), req)
		if err != nil {
			return err
		}
		diff := cmp.Diff(want, got, protocmp.Transform(), protocmp.IgnoreFields(&statsv1.EventStats{}, "updated_at"),
			protocmp.IgnoreFields(&statsv1.RewardStats{}, "updated_at"), protocmp.IgnoreFields(&statsv1.RequestStats{}, "updated_at"))
		if diff != "" {
			return fmt.Errorf("the figures differ: %s", diff)
		}
		return nil
	})
}

// Many events are counted in one transaction. An event that is published twice counts once. An
// unreadable one becomes a dead letter.
func TestPublishedEventsAreCounted(t *testing.T) {
	t.Parallel()
	w := newInstallation(t)
	const busyCount = 3000
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	busy := make([]any, busyCount)
	for i := range busy {
		busy[i] = reservation("busy", "RESERVATION_CREATED", 1, at)
	}
	w.publish(t, reservations, "busy", busy...)
	for range 2 { // as after a crash of the outbox relay before it deleted published rows
		w.publish(t, reservations, "r", reservation("e", "RESERVATION_CREATED", 2, at), reservation("e", "RESERVATION_CONFIRMED", 2, at))
		w.publish(t, payments, "p", payment("PAYMENT_CONFIRMED", 3000, at), payment("PAYMENT_REFUNDED", 1000, at))
	}
	w.serve(t)

	w.requireFigures(t, &statsv1.OperatorEventStats{
		Counts:  &statsv1.EventStats{EventId: "e", Created: 1, Confirmed: 1, SeatsSold: 2},
		Revenue: []*statsv1.Revenue{{Currency: "KRW", Confirmed: 3000, Refunded: 1000, Net: 2000, Payments: 1, Refunds: 1, ByCause: &statsv1.MoneyByCause{Sale: 3000, SaleRefund: 1000}}},
		Rewards: &statsv1.RewardStats{}, Requests: &statsv1.RequestStats{},
	})
	testkit.Until(t, func() bool {
		got, err := w.stats.GetEventStats(t.Context(), &statsv1.GetEventStatsRequest{EventId: "busy"})
		return err == nil && got.GetCreated() == busyCount
	}, "all reservations of the busy event are counted")

	var transactions, claims int
	require.NoError(t, w.pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text), count(*) FROM processed_events WHERE event_key LIKE 'busy-%'`).
		Scan(&transactions, &claims))
	require.Equal(t, busyCount, claims)
	require.LessOrEqual(t, transactions, 30)

	w.publish(t, reservations, "bad", []byte(`{`))
	letter := kafkatest.Read(t, w.cfg.Kafka.TopicPrefix+reservations+kafka.DLQSuffix, 1)[0]
	require.Equal(t, "{", string(letter.Value))
	require.Equal(t, "stats-service-group", letter.Headers[kafka.HeaderGroup])
}

// A database that was restored from a backup, or whose figures were dropped, is behind the offsets
// that the consumer group has committed. The events that it lacks are counted again.
func TestFiguresFollowTheirDatabase(t *testing.T) {
	t.Parallel()
	w := newInstallation(t)
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	w.publish(t, reservations, "r", reservation("e", "RESERVATION_CREATED", 2, at), reservation("e", "RESERVATION_CONFIRMED", 2, at))
	want := &statsv1.OperatorEventStats{
		Counts:  &statsv1.EventStats{EventId: "e", Created: 1, Confirmed: 1, SeatsSold: 2},
		Rewards: &statsv1.RewardStats{}, Requests: &statsv1.RequestStats{},
	}
	stop := w.serve(t)
	w.requireFigures(t, want)
	stop() // commits the offsets of the group
	_, err := w.pool.Exec(t.Context(), `TRUNCATE totals, minutes, processed_events, consumer_offsets`)
	require.NoError(t, err)
	w.serve(t)
	w.requireFigures(t, want)
}

// The reward and worker services, with their topics, may be installed while stats runs. Before
// that, stats counts the events of the other topics.
func TestNewTopicsAreCountedOnceTheyExist(t *testing.T) {
	t.Parallel()
	w := newInstallation(t)
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	w.serve(t)
	w.publish(t, reservations, "r", reservation("campaign", "RESERVATION_CREATED", 1, at))
	want := &statsv1.OperatorEventStats{
		Counts: &statsv1.EventStats{EventId: "campaign", Created: 1}, Rewards: &statsv1.RewardStats{}, Requests: &statsv1.RequestStats{},
	}
	w.requireFigures(t, want)

	require.NoError(t, kafka.EnsureTopics(t.Context(), w.cfg.Kafka, kafka.Topic{Name: rewards}, kafka.Topic{Name: requests}))
	for range 2 {
		w.publish(t, rewards, "w", reward("REWARD_PAID", 500, at), reward("REWARD_FAILED", 200, at), reward("REWARD_CANCELLED", 100, at),
			reward("REWARD_PAID", 300, at.AddDate(0, 0, 1)))
		w.publish(t, requests, "q", request("REQUEST_FAILED", 3, at), request("REQUEST_SUCCEEDED", 9, at), request("REQUEST_REJECTED", 4, at))
	}
	require.NoError(t, kafka.EnsureTopics(t.Context(), w.cfg.Kafka, kafka.Topic{Name: transfers}, kafka.Topic{Name: memberships}))
	for range 2 {
		w.publish(t, transfers, "t", &eventsv1.TransferEvent{Type: "TRANSFER_COMPLETED", EventId: "campaign", Price: 7, Currency: "KRW", OccurredAt: timestamppb.New(at)})
		w.publish(t, memberships, "m", &eventsv1.MembershipEvent{Type: "MEMBERSHIP_ACTIVATED", PlanId: "p", Price: 7, Currency: "KRW", OccurredAt: timestamppb.New(at)})
	}
	testkit.Until(t, func() bool {
		var n int
		return w.pool.QueryRow(t.Context(), `SELECT amount FROM totals WHERE event_id = '' AND figure = 'memberships_activated'`).Scan(&n) == nil && n == 1
	}, "the membership is counted")
	want.TransfersCompleted = 1
	want.Requests = &statsv1.RequestStats{Succeeded: 1, Rejected: 1, Failed: 1}
	want.Rewards = &statsv1.RewardStats{Paid: 2, Failed: 1, Cancelled: 1, PointsPaid: 800}
	w.requireFigures(t, want)

	w.publish(t, rewards, "bad", []byte(`{"type":"REWARD_PAID","eventId":"a b"}`))
	letter := kafkatest.Read(t, w.cfg.Kafka.TopicPrefix+rewards+kafka.DLQSuffix, 1)[0]
	require.Equal(t, "stats-service-group", letter.Headers[kafka.HeaderGroup])
}

// Each act is stored once and listed, whichever of its two Kafka events comes first. A record that
// is not an act becomes a dead letter.
func TestPublishedActsAreListed(t *testing.T) {
	t.Parallel()
	w := newInstallation(t)
	at := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC)
	act := func(n int, kind string) *eventsv1.AuditEvent {
		e := &eventsv1.AuditEvent{
			Type: kind, ActId: fmt.Sprintf("01990f5e-7b5a-7c3e-9d1a-%012d", n), UserId: "operator", Address: "203.0.113.7", Method: "PUT",
			Route: "/t/{event_id}", Path: "/t/e", EventId: "e", RequestId: "r", Body: "{}", OccurredAt: timestamppb.New(at.Add(time.Duration(n) * time.Second)),
		}
		if kind == "OPERATOR_ACT_ENDED" {
			e.Status, e.EndedAt = proto.Int32(200), timestamppb.New(at.Add(time.Hour))
		}
		return e
	}
	for range 2 { // as after a crash of the gateway, which then publishes again
		w.publish(t, operators, "first", act(1, "OPERATOR_ACTED"), act(1, "OPERATOR_ACT_ENDED"), act(2, "OPERATOR_ACT_ENDED"), act(3, "OPERATOR_ACTED"))
	}
	w.publish(t, operators, "second", act(2, "OPERATOR_ACTED"), []byte("{"))
	w.serve(t)

	req := &statsv1.ListActsRequest{Caller: &commonv1.Caller{UserId: "operator", Roles: []string{"admin"}}, EventId: "e"}
	want := &statsv1.ListActsResponse{}
	for n := 3; n >= 1; n-- {
		e := act(n, "OPERATOR_ACTED")
		a := &statsv1.Act{
			ActId: e.GetActId(), At: e.GetOccurredAt(), UserId: e.GetUserId(), Address: e.GetAddress(), Method: e.GetMethod(), Route: e.GetRoute(),
			Path: e.GetPath(), EventId: e.GetEventId(), RequestId: e.GetRequestId(), Body: e.GetBody(),
		}
		if n < 3 {
			a.Status, a.EndedAt = proto.Int32(200), timestamppb.New(at.Add(time.Hour))
		}
		want.Items = append(want.Items, a)
	}
	testkit.UntilNoError(t, func() error {
		got, err := w.stats.ListActs(t.Context(), req)
		if diff := cmp.Diff(want, got, protocmp.Transform()); err == nil && diff != "" {
			err = fmt.Errorf("the acts differ: %s", diff)
		}
		return err
	})
	require.Equal(t, "{", string(kafkatest.Read(t, w.cfg.Kafka.TopicPrefix+operators+kafka.DLQSuffix, 1)[0].Value))

	var out bytes.Buffer
	require.NoError(t, app.Kafka().Run(t.Context(), &w.cfg, []string{"redrive"}, &out))
	lines := ""
	for _, topic := range []string{payments, reservations, transfers, memberships, rewards, requests} { // four of them do not exist
		lines += topic + ": 0 redriven, 0 refused by the broker\n"
	}
	require.Equal(t, lines+operators+": 1 redriven, 0 refused by the broker\n", out.String())
	require.Equal(t, "{", string(kafkatest.Read(t, w.cfg.Kafka.TopicPrefix+operators+kafka.DLQSuffix, 2)[1].Value), "it fails again")
}
