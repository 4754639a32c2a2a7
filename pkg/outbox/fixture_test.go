package outbox_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

func event(topic, key string, version int64) outbox.Event {
	return outbox.Event{
		Topic: topic, Key: key, Type: "TESTED", EntityVersion: version, Payload: caller(key, version),
	}
}

// caller returns the payload of an event.
func caller(text string, version int64) *commonv1.Caller {
	return &commonv1.Caller{UserId: text, Epoch: version}
}

func insert(ctx context.Context, pool *pgxpool.Pool, events ...outbox.Event) error {
	return postgres.InTx(ctx, pool, func(ctx context.Context, tx pgx.Tx) error {
		return outbox.Insert(ctx, tx, "test", events...)
	})
}

func pending(t *testing.T, pool *pgxpool.Pool) int {
	t.Helper()
	var n int
	require.NoError(t, pool.QueryRow(t.Context(), `SELECT count(*) FROM outbox`).Scan(&n))
	return n
}

func waitEmpty(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testkit.Until(t, func() bool { return pending(t, pool) == 0 }, "the outbox is empty")
}

// waitForOlderTransactions waits until no transaction is running that began before the rows of the
// outbox: a transaction in any database of the server delays them.
func waitForOlderTransactions(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testkit.Until(t, func() bool {
		var settled bool
		err := pool.QueryRow(t.Context(), `SELECT bool_and(txid < pg_snapshot_xmin(pg_current_snapshot())) FROM outbox`).Scan(&settled)
		require.NoError(t, err)
		return settled
	}, "the transactions before it have ended")
}

// run starts a relay. The returned function stops it, at the latest when the test ends.
func run(t *testing.T, pool *pgxpool.Pool, p outbox.Publisher, opts outbox.Options) (*outbox.Relay, func()) {
	t.Helper()
	r := newRelay(t, pool, p, opts)
	return r, start(t, r)
}

func newRelay(t *testing.T, pool *pgxpool.Pool, p outbox.Publisher, opts outbox.Options) *outbox.Relay {
	t.Helper()
	r := outbox.NewRelay(pool, p, slog.New(slog.NewTextHandler(t.Output(), nil)), opts)
	r.ShortenPauses()
	return r
}

func start(t *testing.T, r *outbox.Relay) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		require.NoError(t, <-done)
	})
	t.Cleanup(stop)
	return stop
}

// missing is what gauge returns for a metric without a value.
const missing = -1

func gauge(t *testing.T, name string) float64 {
	t.Helper()
	if value, ok := metricstest.MetricSum(t, name, nil); ok {
		return value
	}
	return missing
}
