package postgres_test

import (
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/provider"
	"urr.guru/services/reward/sandbox"
)

// policy has short times, so that a test sees retries.
func policy() payout.Policy {
	return payout.Policy{
		CallTimeout: 300 * time.Millisecond, Lease: time.Second, MaxAttempts: 6, RetryMin: 50 * time.Millisecond, RetryMax: 500 * time.Millisecond,
		MaxRecoveries: 5, SettleTime: time.Second, KeyRetention: time.Hour, LookupRetention: time.Hour, HoldAfter: time.Hour,
	}
}

// fill inserts n pending allocations of 100 points.
func fill(t testing.TB, pool *pgxpool.Pool, n int) {
	t.Helper()
	_, err := pool.Exec(t.Context(), `
		INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at) VALUES ('c', 'Campaign', 'RANDOM', now() - interval '1 h', now() + interval '1 h')
		ON CONFLICT DO NOTHING`)
	require.NoError(t, err)
	_, err = pool.Exec(t.Context(), `
		WITH entries AS (
			INSERT INTO event_entry (event_id, member_id, period, created_at) SELECT 'c', 'm' || n, 'CAMPAIGN', now() FROM generate_series(1, $1) AS n
			RETURNING id, member_id)
		INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key)
		SELECT 'c', member_id, id, 'POINT', 100, 'DRAW', 'rand-c-' || member_id || '-log-' || id FROM entries`, n)
	require.NoError(t, err)
}

// open opens a pool as the service does.
func open(t testing.TB, opts ...pkgpostgres.Option) *pgxpool.Pool {
	t.Helper()
	pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: postgrestest.PatientURL(t, postgres.Migrations...), MaxConns: 16}, t.Name(),
		append(postgres.SessionOptions(), opts...)...)
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return pool
}

type environment struct {
	pool   *pgxpool.Pool
	ledger *sandbox.Ledger
	server *sandbox.Server
	url    string
}

func newEnvironment(t *testing.T, faults sandbox.Faults) *environment {
	t.Helper()
	ledger, err := sandbox.Open(filepath.Join(t.TempDir(), "ledger"), time.Now)
	require.NoError(t, err)
	server := sandbox.NewServer(t.Context(), ledger, faults, slog.New(slog.DiscardHandler))
	h := httptest.NewServer(server)
	t.Cleanup(func() { h.Close(); server.Wait(); _ = ledger.Close() })
	return &environment{pool: open(t), ledger: ledger, server: server, url: h.URL}
}

// run runs replicas until the test ends or stop is called.
func (env *environment) run(t *testing.T, replicas int, p payout.Policy) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, replicas)
	for range replicas {
		store := postgres.NewPayouts(postgres.New(env.pool, postgres.Options{}))
		client := provider.New(env.url, provider.Options{OpenFor: 200 * time.Millisecond})
		e := payout.NewEngine(payout.Point, store, client, p, 16, slog.New(slog.DiscardHandler))
		go func() { done <- e.Run(ctx) }()
	}
	return func() {
		cancel()
		for range replicas {
			require.NoError(t, <-done)
		}
	}
}

func (env *environment) count(t *testing.T, condition string) (n int) {
	t.Helper()
	require.NoError(t, env.pool.QueryRow(t.Context(), `SELECT count(*) FROM event_reward_allocation WHERE `+condition).Scan(&n))
	return n
}

const due = `reward_status IN ('PENDING', 'PROCESSING') OR reward_status = 'FAILED' AND next_retry_at IS NOT NULL`

func TestPayoutsUnderFaults(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	env := newEnvironment(t, sandbox.Faults{
		Seed: 7, Refused: 0.1, Busy: 0.05, Unavailable: 0.02, Silent: 0.05, Lost: 0.2, Failed: 0.05, Slow: 0.05, SlowFor: 500 * time.Millisecond,
		Late: 0.05, LateFor: 400 * time.Millisecond,
	})
	fill(t, env.pool, 500)
	p := policy()
	p.MaxAttempts, p.MaxRecoveries = 1000, 1000 // no limit is reached, even on a busy machine
	stop := env.run(t, 3, p)
	testkit.Until(t, func() bool { return env.count(t, due) == 0 }, "nothing is due")
	stop()
	env.requireLedger(t)
	require.Equal(t, 500, env.count(t, `reward_status = 'SUCCESS'`))
}

// requireLedger compares every allocation with the ledger: SUCCESS is paid once, and nothing else
// is.
func (env *environment) requireLedger(t *testing.T) {
	t.Helper()
	paid := map[string]int{}
	for _, p := range env.ledger.All() {
		paid[p.MemberID]++
	}
	rows, err := env.pool.Query(t.Context(), `SELECT member_id, reward_status FROM event_reward_allocation`)
	require.NoError(t, err)
	counts := map[string]int{}
	for rows.Next() {
		var member, status string
		require.NoError(t, rows.Scan(&member, &status))
		counts[status]++
		require.Equal(t, map[string]int{"SUCCESS": 1}[status], paid[member], "%s is %s", member, status)
	}
	t.Log(counts)
	env.requireTotals(t)
}

// requireTotals compares the totals, which the statements keep, with a count of all rows.
func (env *environment) requireTotals(t *testing.T) {
	t.Helper()
	rows, err := env.pool.Query(t.Context(), `
		SELECT reward_status, count(*), coalesce(sum(reward_value) FILTER (WHERE reward_kind = 'POINT'), 0), count(held_at), count(unknown_since)
		FROM event_reward_allocation GROUP BY reward_status ORDER BY reward_status`)
	require.NoError(t, err)
	want, err := pgx.CollectRows(rows, pgx.RowToStructByPos[payout.Totals])
	require.NoError(t, err)
	kept, err := env.operators().Summary(t.Context(), "c")
	require.NoError(t, err)
	require.Equal(t, want, kept)
}

// An outcome with U+0000, which PostgreSQL refuses, stops no other outcome of its batch.
func TestOutcomeWithTextThatCannotBeStored(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	store := env.payouts(t)
	claims, err := store.Claim(t.Context(), payout.Point, 1, policy())
	require.NoError(t, err)
	require.Len(t, claims, 1)
	applied, err := store.Settle(t.Context(), payout.EndedCall{
		ID: 1, Version: claims[0].Version, Action: payout.Pay,
		Result: payout.CallResult{Outcome: payout.Refused, Message: "a\x00b\xff" + strings.Repeat("가", 1000)},
	}, policy())
	require.NoError(t, err)
	require.True(t, applied)
	require.Equal(t, payout.CodeRefused, env.get(t).Code)
	require.LessOrEqual(t, len(env.get(t).Message), 1010)
}

// A payout that is held after its workers died publishes REWARD_FAILED. Cancelling it ends it at
// once, since no call can have paid.
func TestAbandonedPayoutHasAnEventAndCanBeCancelled(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	env.set(t, `reward_status = 'PROCESSING', lease_until = now() - interval '1 s', recoveries = 5`)
	held, err := env.payouts(t).HoldAbandoned(t.Context(), payout.Point, policy())
	require.NoError(t, err)
	require.Equal(t, 1, held)
	var typ string
	require.NoError(t, env.pool.QueryRow(t.Context(), `SELECT type FROM outbox`).Scan(&typ))
	require.Equal(t, "REWARD_FAILED", typ)
	require.NoError(t, env.operators().Cancel(t.Context(), []int64{1}, false))
	require.Equal(t, payout.Cancelled, env.get(t).Status)
	require.Zero(t, env.get(t).HeldAt)
}
