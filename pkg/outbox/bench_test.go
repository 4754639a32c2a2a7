package outbox_test

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/benchtest/gotest"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres/postgrestest"
)

const (
	relayedEvents = 20_000  // events per round
	relayedKeys   = 5_000   // so each key has several events
	batchOfRelay  = 500     // a relay's default batch size
	payloadFill   = 400     // bytes; with the rest of the payload, as much as an event of a reservation
	relayedSource = "bench" // CloudEvents source
)

// BenchmarkOutboxRelay is the row outbox_relay of `make bench`: a relay publishes a full table to
// Kafka, compared with draining the table by SQL alone, without publishing.
func BenchmarkOutboxRelay(b *testing.B) {
	pool, topic, producer := postgrestest.New(b, outbox.Migrations), kafkatest.TopicOf(b, 3), kafkatest.Producer(b)
	side := func(drain func()) benchtest.MeasureFunc {
		return func(context.Context) (float64, map[string]float64, error) {
			fillOutbox(b, pool, topic)
			began := time.Now()
			drain()
			took := time.Since(began)
			var left int
			require.NoError(b, pool.QueryRow(b.Context(), `SELECT count(*) FROM outbox`).Scan(&left))
			require.Zero(b, left)
			return took.Seconds() * 1e6 / relayedEvents, nil, nil
		}
	}
	gotest.Compare(b, benchtest.Result{
		Name: "outbox_relay", What: "publish the events of a full outbox to Kafka and delete them", Besides: "delete them by SQL alone, in batches of 500", Unit: "µs per event",
		Must: 0.5, Aim: 0.7,
	}, side(func() { relayAll(b, pool, producer) }), side(func() { drainBySQL(b, pool) }))
}

// fillOutbox fills the table with only the events of one round, as services write them.
func fillOutbox(b *testing.B, pool *pgxpool.Pool, topic string) {
	b.Helper()
	_, err := pool.Exec(b.Context(), `TRUNCATE outbox`)
	require.NoError(b, err)
	fill := strings.Repeat("x", payloadFill)
	for at := 0; at < relayedEvents; at += batchOfRelay {
		events := make([]outbox.Event, batchOfRelay)
		for i := range events {
			n := at + i
			events[i] = event(topic, "key-"+strconv.Itoa(n%relayedKeys), int64(n/relayedKeys))
			events[i].Payload = caller(fill, int64(n))
		}
		require.NoError(b, insert(b.Context(), pool, events...))
	}
	_, err = pool.Exec(b.Context(), `ANALYZE outbox`)
	require.NoError(b, err)
}

// countingPublisher calls done when it has published the events of a round.
type countingPublisher struct {
	*kafka.Producer

	published atomic.Int64
	done      func()
}

func (p *countingPublisher) PublishEach(ctx context.Context, recs []kafka.Record) []error {
	results := p.Producer.PublishEach(ctx, recs)
	for _, err := range results {
		if err == nil && p.published.Add(1) == relayedEvents {
			p.done()
		}
	}
	return results
}

// relayAll runs a relay until it has published and deleted everything.
func relayAll(b *testing.B, pool *pgxpool.Pool, producer *kafka.Producer) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	p := &countingPublisher{Producer: producer, done: cancel}
	require.NoError(b, outbox.NewRelay(pool, p, slog.New(slog.DiscardHandler), outbox.Options{Prober: producer}).Run(ctx))
}

// drainBySQL is the baseline: read and delete the oldest rows until there are none.
func drainBySQL(b *testing.B, pool *pgxpool.Pool) {
	b.Helper()
	for {
		rows, err := pool.Query(b.Context(), `
			DELETE FROM outbox WHERE id IN (SELECT id FROM outbox ORDER BY id LIMIT $1 FOR UPDATE SKIP LOCKED)
			RETURNING id, topic, key, payload, headers`, batchOfRelay)
		require.NoError(b, err)
		n := 0
		for ; rows.Next(); n++ {
			var id int64
			var topic, key, payload string
			var headers []byte
			require.NoError(b, rows.Scan(&id, &topic, &key, &payload, &headers))
		}
		require.NoError(b, rows.Err())
		if n == 0 {
			return
		}
	}
}
