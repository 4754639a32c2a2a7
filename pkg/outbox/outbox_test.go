package outbox_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/trace"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

func TestPublishesToKafka(t *testing.T) {
	t.Parallel()
	pool, topic := postgrestest.New(t, outbox.Migrations), kafkatest.TopicOf(t, 1)
	relay, _ := run(t, pool, kafkatest.Producer(t), outbox.Options{})

	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled})
	e := event(topic, "k", 7)
	e.ID = uuid.Must(uuid.NewV7())
	require.NoError(t, insert(trace.ContextWithSpanContext(t.Context(), parent), pool, e))
	relay.Signal()

	rec := kafkatest.Read(t, topic, 1)[0]
	require.Equal(t, "k", string(rec.Key))
	require.Equal(t, e.ID.String(), rec.EventID)
	require.Equal(t, "TESTED", rec.Type)
	require.Equal(t, "test", rec.Headers[kafka.HeaderSource])
	require.Contains(t, rec.Headers["traceparent"], parent.TraceID().String())
	var c commonv1.Caller
	require.NoError(t, kafka.Decode(rec, &c))
	require.Equal(t, int64(7), c.GetEpoch())
	require.Contains(t, string(rec.Value), `"epoch":7`, "64-bit integers are numbers")
	waitEmpty(t, pool)
}

func TestRolledBackChangePublishesNothing(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	err := postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		return errors.Join(outbox.Insert(ctx, tx, "test", event("t", "k", 1)), errors.New("changed my mind"))
	})
	require.Error(t, err)
	require.Zero(t, pending(t, pool))
}

func TestInsertRefusesTooLargeEvents(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	e := event("t", "k", 1)
	e.Payload = &commonv1.Caller{UserId: strings.Repeat("x", 600<<10)}
	require.ErrorContains(t, insert(t.Context(), pool, e), "bytes")
	twice := event("t", "k", 1)
	twice.ID = uuid.Must(uuid.NewV7())
	require.NoError(t, insert(t.Context(), pool, twice))
	require.ErrorContains(t, insert(t.Context(), pool, twice), "outbox_event_id_key")
}

// change runs a writer's transaction that gets its txid some time before it locks the entity's row.
func change(ctx context.Context, pool *pgxpool.Pool, key string) error {
	return postgres.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT pg_current_xact_id(), pg_sleep(random() * 0.004)`); err != nil {
			return err
		}
		var version int64
		err := tx.QueryRow(ctx, `UPDATE entity SET version = version + 1 WHERE id = $1 RETURNING version`, key).Scan(&version)
		return errors.Join(err, outbox.Insert(ctx, tx, "test", event("t", key, version)))
	})
}

// Writers of the same entities commit in the order in which they locked the row; their txids are in
// another order on purpose.
func TestPublishesInCommitOrderPerKey(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	_, err := pool.Exec(t.Context(), `CREATE TABLE entity AS SELECT k::text AS id, 0::bigint AS version FROM generate_series(0, 4) k`)
	require.NoError(t, err)
	var m fakePublisher
	run(t, pool, &m, outbox.Options{Batch: 7})

	const writers, rounds = 8, 25
	results := make(chan error, writers)
	for range writers {
		go func() {
			var err error
			for range rounds {
				err = errors.Join(err, change(t.Context(), pool, fmt.Sprint(rand.IntN(5))))
			}
			results <- err
		}()
	}
	for range writers {
		require.NoError(t, <-results)
	}
	waitEmpty(t, pool)
	total := 0
	for k := range 5 {
		vs := m.versions(t, fmt.Sprint(k))
		for i, v := range vs {
			require.Equal(t, int64(i+1), v, "key %d", k)
		}
		total += len(vs)
	}
	require.Equal(t, writers*rounds, total)
}

// A transaction that commits late is neither skipped nor overtaken by later inserts, even if the
// writers have no common row lock.
func TestLateCommitIsNotSkipped(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	var m fakePublisher
	relay := newRelay(t, pool, &m, outbox.Options{})
	late, err := pool.Begin(t.Context())
	require.NoError(t, err)
	_, err = late.Exec(t.Context(), `SET LOCAL idle_in_transaction_session_timeout = 0`)
	require.NoError(t, err)
	require.NoError(t, outbox.Insert(t.Context(), late, "test", event("t", "k", 1)))
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 2)))
	published, blocked, err := relay.Pass(t.Context())
	require.NoError(t, err)
	require.Zero(t, published)
	require.True(t, blocked)
	require.NoError(t, late.Commit(t.Context()))
	start(t, relay)
	waitEmpty(t, pool)
	require.Equal(t, []int64{1, 2}, m.versions(t, "k"))
}

func TestFailedEventIsPublishedBeforeLaterOnes(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	failures := 3
	m := fakePublisher{}
	m.fail = func(r kafka.Record) error {
		if strings.Contains(string(r.Value), `"epoch":2`) && failures > 0 {
			failures--
			return errors.New("broker away")
		}
		return nil
	}
	require.NoError(t, insert(t.Context(), pool, event("t", "a", 1), event("t", "a", 2), event("t", "a", 3), event("t", "b", 9)))
	run(t, pool, &m, outbox.Options{})
	waitEmpty(t, pool)
	vs := m.versions(t, "a")
	require.Equal(t, int64(1), vs[0])
	require.Equal(t, []int64{2, 3}, vs[len(vs)-2:], "the last word of a key stays the last: %v", vs)
	require.Equal(t, []int64{9}, m.versions(t, "b"), "another key is neither held up nor repeated")
}

// Only one of two relays publishes; when it loses its session, the other relay does.
func TestTakeover(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	var a, b fakePublisher
	run(t, pool, &a, outbox.Options{})
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1)))
	waitEmpty(t, pool)
	_, stopB := run(t, pool, &b, outbox.Options{})
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 2)))
	waitEmpty(t, pool)
	require.Equal(t, []int64{1, 2}, a.versions(t, "k"))
	require.Empty(t, b.published(), "the lock is taken")

	for v := int64(3); v < 40; v++ {
		if v%10 == 0 {
			_, err := pool.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
			require.NoError(t, err)
		}
		require.NoError(t, insert(t.Context(), pool, event("t", "k", v)))
	}
	waitEmpty(t, pool)
	stopB()
	seen := make(map[int64]bool)
	for _, v := range append(a.versions(t, "k"), b.versions(t, "k")...) {
		seen[v] = true
	}
	require.Len(t, seen, 39)
}

// blockedPublisher blocks every call until it is released, as in a paused process.
type blockedPublisher struct {
	fakePublisher

	entered chan struct{}
	release chan struct{}
}

func (h *blockedPublisher) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	close(h.entered)
	<-h.release
	return h.fakePublisher.PublishEach(ctx, recs)
}

// A relay that hangs keeps its connection and its lock: the server ends the session, so that
// another relay takes over.
func TestTakeoverFromHangingRelay(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	a := blockedPublisher{entered: make(chan struct{}), release: make(chan struct{})}
	relay := newRelay(t, pool, &a, outbox.Options{})
	relay.SessionIdle(200 * time.Millisecond)
	stop := start(t, relay)
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1)))
	testkit.Receive(t, a.entered)
	var b fakePublisher
	run(t, pool, &b, outbox.Options{})
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 2)))
	waitEmpty(t, pool)
	require.Equal(t, []int64{1, 2}, b.versions(t, "k"))
	close(a.release)
	stop()
}

// Events committed by the last requests are published before the process ends.
func TestStopPublishesPendingEvents(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	var m fakePublisher
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1)))
	relay := newRelay(t, pool, &m, outbox.Options{Poll: time.Hour, Batch: 2})
	relay.DrainTimeout(time.Hour)
	stop := start(t, relay)
	waitEmpty(t, pool) // the first pass comes at once
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 2), event("t", "k", 3), event("t", "k", 4)))
	waitForOlderTransactions(t, pool) // a stopping relay does not wait long for them
	stop()
	require.Zero(t, pending(t, pool))
	require.Equal(t, []int64{1, 2, 3, 4}, m.versions(t, "k"))
}

func TestSignalTriggersPublishing(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, outbox.Migrations)
	var m fakePublisher
	relay, _ := run(t, pool, &m, outbox.Options{Poll: time.Hour})
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1)))
	testkit.Until(t, func() bool {
		relay.Signal()
		return pending(t, pool) == 0
	}, "the outbox is empty")
}

func TestMetrics(t *testing.T) {
	pool := postgrestest.New(t, outbox.Migrations)
	m := fakePublisher{fail: func(kafka.Record) error { return errors.New("broker away") }}
	relay := newRelay(t, pool, &m, outbox.Options{})
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 1), event("t", "k", 2)))
	var oldest time.Time
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT min(created_at) FROM outbox`).Scan(&oldest))
	require.NoError(t, insert(t.Context(), pool, event("t", "k", 3)))
	require.NoError(t, relay.Measure(t.Context(), oldest.Add(90*time.Second)))
	require.InDelta(t, 3, gauge(t, "urr_outbox_rows"), 0)
	require.InDelta(t, 90, gauge(t, "urr_outbox_lag_seconds"), 0)
	require.InDelta(t, 1, gauge(t, "urr_outbox_known"), 0)

	away, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, relay.Measure(away, oldest))
	require.InDelta(t, 0, gauge(t, "urr_outbox_known"), 0)
	for _, name := range []string{"urr_outbox_rows", "urr_outbox_lag_seconds", "urr_outbox_parked_keys"} {
		require.InDelta(t, missing, gauge(t, name), 0, "the last value of %s is not reported", name)
	}

	require.NoError(t, insert(t.Context(), pool, event("t", "k", 4)))
	start(t, relay)
	testkit.Until(t, func() bool { return gauge(t, "urr_outbox_rows") == 4 }, "a relay that runs measures")
}
