package postgres_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
)

// manyPending inserts many pending allocations quickly.
func manyPending(b *testing.B, pool *pgxpool.Pool, n int) {
	b.Helper()
	fill(b, pool, 0)
	conn, err := pgx.Connect(b.Context(), pool.Config().ConnString()) // without the pool's time limits
	require.NoError(b, err)
	defer func() { _ = conn.Close(context.Background()) }()
	indexes := withoutIndexes(b, conn)
	for _, sql := range append([]string{
		`SET session_replication_role = replica`, // without the checks of foreign keys
		fmt.Sprintf(`INSERT INTO event_entry (event_id, member_id, period, created_at) SELECT 'c', 'm' || n, 'CAMPAIGN', now() FROM generate_series(1, %d) AS n`, n),
		`INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key)
			SELECT 'c', member_id, id, 'POINT', 100, 'DRAW', 'rand-c-' || member_id || '-log-' || id FROM event_entry`,
	}, indexes...) {
		_, err := conn.Exec(b.Context(), sql)
		require.NoError(b, err)
	}
}

// BenchmarkCancelCampaign cancels a campaign of 300,000 payouts, whose prizes return to the stock,
// while members take part in another one. It reports the longest transaction, sampled every 10 ms,
// which must stay below 5 s, and the longest entry.
//
//	go test ./internal/postgres -run '^$' -bench CancelCampaign -benchtime 1x
func BenchmarkCancelCampaign(b *testing.B) {
	const rows = 300_000
	for b.Loop() {
		b.StopTimer()
		pool := open(b)
		manyPending(b, pool, rows)
		database := postgres.New(pool, postgres.Options{})
		operators := postgres.Operators{Database: database, WakePayouts: func() {}}
		service := campaign.NewService(postgres.NewCampaigns(database), nil, func() {})
		_, _, err := service.Create(b.Context(), campaign.Campaign{
			EventID: "other", Title: "Other", Kind: campaign.Random, OpensAt: time.Now().Add(-time.Hour), ClosesAt: time.Now().Add(time.Hour),
			Prizes: []campaign.Prize{{Name: "points", Weight: 1, Reward: campaign.Reward{Kind: payout.Point, Value: 1}}},
		}, nil)
		require.NoError(b, err)
		require.NoError(b, operators.CancelCampaign(b.Context(), "c", true))
		ctx, cancel := context.WithCancel(b.Context())
		var work sync.WaitGroup
		var entries int
		var entry, transaction float64
		work.Go(func() {
			for ; ctx.Err() == nil; entries++ {
				began := time.Now()
				if _, err := service.Draw(b.Context(), "other", fmt.Sprint("m", entries), ""); err != nil {
					b.Error(err)
				}
				entry = max(entry, time.Since(began).Seconds())
			}
		})
		work.Go(func() {
			for tick := time.NewTicker(10 * time.Millisecond); ctx.Err() == nil; <-tick.C {
				var oldest float64
				if err := pool.QueryRow(b.Context(), `
					SELECT coalesce(extract(epoch FROM max(clock_timestamp() - xact_start)), 0)::float8 FROM pg_stat_activity
					WHERE datname = current_database() AND pid <> pg_backend_pid() AND backend_type = 'client backend'`).Scan(&oldest); err != nil {
					b.Error(err)
				}
				transaction = max(transaction, oldest)
			}
		})
		b.StartTimer()
		require.NoError(b, operators.CancelMarked(b.Context()))
		b.StopTimer()
		cancel()
		work.Wait()
		var left int
		require.NoError(b, pool.QueryRow(b.Context(), `SELECT count(*) FROM event_reward_allocation WHERE event_id = 'c' AND reward_status <> 'CANCELLED'`).Scan(&left))
		require.Zero(b, left)
		b.ReportMetric(transaction, "longest-tx-s")
		b.ReportMetric(entry, "longest-entry-s")
		b.ReportMetric(float64(entries), "entries")
		b.StartTimer()
	}
}
