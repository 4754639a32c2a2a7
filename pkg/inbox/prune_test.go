package inbox_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
)

var now = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

// newInbox makes an inbox with events of the given ages.
func newInbox(t *testing.T, ages map[string]time.Duration) *pgxpool.Pool {
	t.Helper()
	pool := postgrestest.New(t, inbox.Migrations)
	for key, age := range ages {
		_, err := pool.Exec(t.Context(), `INSERT INTO processed_events VALUES ($1, 'g', $2)`, key, now.Add(-age))
		require.NoError(t, err)
	}
	return pool
}

func keys(t *testing.T, pool *pgxpool.Pool) []string {
	t.Helper()
	rows, err := pool.Query(t.Context(), `SELECT event_key FROM processed_events ORDER BY 1`)
	require.NoError(t, err)
	all, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	return all
}

func TestPruneKeepsRecentEvents(t *testing.T) {
	t.Parallel()
	pool := newInbox(t, map[string]time.Duration{
		"new": 0, "a week": 7 * 24 * time.Hour, "kept": inbox.Retention, "within the clockSkew": inbox.Retention + 59*time.Minute,
		"old": inbox.Retention + 61*time.Minute, "very old": 365 * 24 * time.Hour,
	})
	n, err := inbox.Prune(t.Context(), pool, &now)
	require.NoError(t, err)
	require.EqualValues(t, 2, n)
	require.Empty(t, cmp.Diff([]string{"a week", "kept", "new", "within the clockSkew"}, keys(t, pool)))
	n, err = inbox.Prune(t.Context(), pool, &now)
	require.NoError(t, err)
	require.Zero(t, n)
}

// Replicas that prune at once share the work and do not block claims.
func TestPruneConcurrently(t *testing.T) {
	t.Parallel()
	pool := postgrestest.New(t, inbox.Migrations)
	const old = 12_000 // more than two statements delete
	_, err := pool.Exec(t.Context(), `INSERT INTO processed_events SELECT 'e' || n, 'g', $1 FROM generate_series(1, $2) n`,
		now.Add(-2*inbox.Retention), old)
	require.NoError(t, err)
	err = postgres.InTx(t.Context(), pool, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT 1 FROM processed_events WHERE event_key = 'e7' FOR UPDATE`); err != nil {
			return err
		}
		var mu sync.Mutex
		var wg sync.WaitGroup
		var total int64
		for range 4 {
			wg.Go(func() {
				n, err := inbox.Prune(ctx, pool, &now)
				mu.Lock()
				defer mu.Unlock()
				total += n
				if err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		// A batch may be short because other replicas lock the rest; the next run deletes these rows.
		n, err := inbox.Prune(ctx, pool, &now)
		require.EqualValues(t, old-1, total+n, "all but the locked one")
		return err
	})
	require.NoError(t, err)
	n, err := inbox.Prune(t.Context(), pool, &now)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
}

// Without an index the statement would read the whole table every ten minutes.
func TestPruneUsesAnIndex(t *testing.T) {
	t.Parallel()
	pool := newInbox(t, nil)
	rows, err := pool.Query(t.Context(), `SELECT indexdef FROM pg_indexes WHERE tablename = 'processed_events' ORDER BY 1`)
	require.NoError(t, err)
	defs, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(t, err)
	require.Contains(t, defs[0], "(processed_at)")
}
