package app_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/config"
	"urr.guru/pkg/inbox"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/rpc"
	"urr.guru/pkg/telemetry"
	"urr.guru/pkg/wire"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/stats/internal/app"
	"urr.guru/services/stats/internal/figures"
	store "urr.guru/services/stats/internal/postgres"
)

const (
	reservations = "reservation-events"
	payments     = "payment-events"
)

// world is an installation of its own: topics with a prefix that nobody else has.
type world struct {
	kafka    kafka.Config
	producer *kafka.Producer
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{kafka: kafkatest.Config(t)}
	w.kafka.TopicPrefix = kafkatest.Name("stats") + "."
	require.NoError(t, kafka.EnsureTopics(t.Context(), w.kafka, kafka.Topic{Name: reservations}, kafka.Topic{Name: payments}))
	t.Cleanup(func() {
		for _, topic := range []string{reservations, payments} {
			kafkatest.Delete(t, w.kafka.TopicPrefix+topic, w.kafka.TopicPrefix+topic+kafka.DLQSuffix)
		}
	})
	var err error
	w.producer, err = kafka.NewProducer(w.kafka, "test")
	require.NoError(t, err)
	t.Cleanup(func() { _ = w.producer.Close(context.Background()) })
	return w
}

// publish sends values (messages, or bytes as they are) with ids of the form <id>-<n>.
func (w *world) publish(t *testing.T, topic, id string, values ...any) {
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
	require.NoError(t, w.producer.Publish(t.Context(), recs...))
}

// serve runs the service on a database until the returned function is called; each call has offsets of its own, from the beginning.
func (w *world) serve(t *testing.T, url config.Secret) (stop func()) {
	t.Helper()
	cfg := &app.Config{
		Config: lifecycle.Config{GRPCAddr: "127.0.0.1:0", ShutdownTimeout: 15 * time.Second},
		RPC:    rpc.ServerConfig{Accept: map[string]config.Secret{"gateway": "a key of at least thirty-two bytes"}},
		Kafka:  w.kafka, Postgres: postgres.Config{URL: url, MaxConns: 8},
	}
	cfg.Kafka.GroupPrefix = kafkatest.Name("replay") + "."
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- app.Run(ctx, cfg, slog.New(slog.DiscardHandler)) }()
	ended := false
	stop = func() {
		if cancel(); !ended {
			ended = true
			require.NoError(t, <-done)
		}
	}
	t.Cleanup(stop)
	return stop
}

func database(t *testing.T) (config.Secret, *pgxpool.Pool) {
	t.Helper()
	url := postgrestest.URL(t, inbox.Migrations, store.Migrations)
	pool, err := postgres.Open(t.Context(), postgres.Config{URL: url, MaxConns: 2}, "test")
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return url, pool
}

// all are the figures of event e, day by day.
type all struct {
	Days    map[string]figures.Counts
	Revenue map[string]figures.Revenue
}

func read(t *testing.T, pool *pgxpool.Pool) all {
	t.Helper()
	got := all{Days: map[string]figures.Counts{}, Revenue: map[string]figures.Revenue{}}
	rows, err := pool.Query(t.Context(), `SELECT day::text, created, confirmed, cancelled, expired, rejected, seats_sold FROM event_days WHERE event_id = 'e'`)
	require.NoError(t, err)
	for rows.Next() {
		var day string
		var c figures.Counts
		require.NoError(t, rows.Scan(&day, &c.Created, &c.Confirmed, &c.Cancelled, &c.Expired, &c.Rejected, &c.SeatsSold))
		got.Days[day] = c
	}
	require.NoError(t, rows.Err())
	rows, err = pool.Query(t.Context(), `SELECT day::text || ' ' || currency, confirmed, refunded, payments, refunds FROM revenue_days WHERE event_id = 'e'`)
	require.NoError(t, err)
	for rows.Next() {
		var key string
		var r figures.Revenue
		require.NoError(t, rows.Scan(&key, &r.Confirmed, &r.Refunded, &r.Payments, &r.Refunds))
		got.Revenue[key] = r
	}
	require.NoError(t, rows.Err())
	return got
}

// counted is how far the partitions have been counted, in records.
func counted(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT coalesce(sum(next_offset), 0) FROM consumer_offsets`).Scan(&n))
	return n
}

func reservation(kind string, quantity int64, at time.Time) *eventsv1.ReservationEvent {
	return &eventsv1.ReservationEvent{Type: kind, EventId: "e", Quantity: quantity, OccurredAt: timestamppb.New(at)}
}

func payment(kind string, amount int64, at time.Time) *eventsv1.PaymentEvent {
	return &eventsv1.PaymentEvent{Type: kind, PaymentType: "reservation", EventId: "e", Amount: amount, Currency: "KRW", OccurredAt: timestamppb.New(at)}
}

// The figures are those of the events, each once: whatever comes twice, in another order, unknown or unreadable, whether the topics are
// read on, again from the beginning, or into an empty database. Not parallel: the metrics are the process's.
func TestFiguresAreThoseOfTheEvents(t *testing.T) {
	w := newWorld(t)
	evening := time.Date(2026, 11, 21, 14, 0, 0, 0, time.UTC) // 23:00 in Seoul
	night := evening.Add(2 * time.Hour)
	sold := []any{
		reservation("RESERVATION_CONFIRMED", 2, night), reservation("RESERVATION_CREATED", 2, evening), // the end before the beginning
		reservation("RESERVATION_CREATED", 4, evening), reservation("RESERVATION_EXPIRED", 4, night),
		reservation("RESERVATION_OF_THE_FUTURE", 1, night), []byte(`{`), reservation("RESERVATION_REJECTED", 1, night),
	}
	paid := []any{
		payment("PAYMENT_REFUNDED", 1000, night), payment("PAYMENT_CONFIRMED", 1000, evening), payment("PAYMENT_CONFIRMED", 2000, night),
		&eventsv1.PaymentEvent{Type: "PAYMENT_CONFIRMED", EventId: "e\x00", OccurredAt: timestamppb.New(night)},
	}
	for range 2 { // an outbox that crashed between the publishing and the deletion
		w.publish(t, reservations, "r", sold...)
		w.publish(t, payments, "p", paid...)
	}
	want := all{
		Days: map[string]figures.Counts{
			"2026-11-21": {Created: 2},
			"2026-11-22": {Confirmed: 1, Expired: 1, Rejected: 1, SeatsSold: 2},
		},
		Revenue: map[string]figures.Revenue{
			"2026-11-21 KRW": {Confirmed: 1000, Payments: 1},
			"2026-11-22 KRW": {Confirmed: 2000, Refunded: 1000, Payments: 1, Refunds: 1},
		},
	}
	url, pool := database(t)
	stop := w.serve(t, url)
	settles(t, pool, want)
	stop()

	w.publish(t, reservations, "more", reservation("RESERVATION_CREATED", 1, night))
	day := want.Days["2026-11-22"]
	day.Created++
	want.Days["2026-11-22"] = day
	stop = w.serve(t, url)
	settles(t, pool, want)
	require.Eventually(t, caughtUp, 60*time.Second, 200*time.Millisecond)
	require.Equal(t, want, read(t, pool))
	stop()
	require.NotContains(t, metrics(), "urr_consumer_lag{", "it is told by who reads the partition")

	empty, fresh := database(t)
	w.serve(t, empty)
	settles(t, fresh, want)
	letters := kafkatest.Read(t, w.kafka.TopicPrefix+reservations+kafka.DLQSuffix, 2)
	require.Equal(t, "{", string(letters[0].Value))
	require.Equal(t, "stats-service-group", letters[0].Headers[kafka.HeaderGroup])
	kafkatest.Read(t, w.kafka.TopicPrefix+payments+kafka.DLQSuffix, 2)
}

// caughtUp reports whether urr_consumer_lag says that nothing is left in any of the six partitions.
func caughtUp() bool {
	lines := 0
	for line := range strings.Lines(metrics()) {
		if strings.HasPrefix(line, "urr_consumer_lag{") {
			if !strings.HasSuffix(line, " 0\n") {
				return false
			}
			lines++
		}
	}
	return lines == 6
}

func metrics() string {
	w := httptest.NewRecorder()
	telemetry.MetricsHandler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return w.Body.String()
}

// settles waits for figures that are right.
func settles(t *testing.T, pool *pgxpool.Pool, want all) {
	t.Helper()
	require.Eventually(t, func() bool { return cmp.Equal(want, read(t, pool)) }, 60*time.Second, 50*time.Millisecond, "%v", want)
}

// Five hundred records are one transaction, and the offset is in it.
func TestABatchIsOneTransaction(t *testing.T) {
	w := newWorld(t)
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	values := slices.Repeat([]any{reservation("RESERVATION_CREATED", 1, at)}, 3000)
	w.publish(t, reservations, "r", values...)
	url, pool := database(t)
	w.serve(t, url)
	require.Eventually(t, func() bool { return counted(t, pool) == len(values) }, 60*time.Second, 50*time.Millisecond)
	require.Equal(t, all{Days: map[string]figures.Counts{"2026-11-21": {Created: 3000}}, Revenue: map[string]figures.Revenue{}}, read(t, pool))
	var transactions, claims int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(DISTINCT xmin::text), count(*) FROM processed_events`).Scan(&transactions, &claims))
	require.Equal(t, len(values), claims)
	require.LessOrEqual(t, transactions, 30)
}
