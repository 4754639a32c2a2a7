package postgres_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/rounds"
	"urr.guru/pkg/rounds/roundstest"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
)

// The numbers of draws in a round, and of members who draw at the same time.
const (
	groupDraws    = 5_000
	baselineDraws = 1_000
	groupMembers  = 256
	poolMembers   = 64
)

// BenchmarkRewardDraw is the row reward_draw of `make bench`: draws of a prize with a stock by group
// commit, compared with one transaction per draw. The same pool claims due payouts meanwhile.
func BenchmarkRewardDraw(b *testing.B) {
	pool := open(b)
	d := &drawing{pool: pool, payouts: postgres.NewPayouts(postgres.New(pool, postgres.Options{}))}
	store := postgres.NewCampaigns(postgres.New(pool, postgres.Options{}))
	service := campaign.NewService(store, nil, func() {})
	side := func(draws, members int, draw func(member string) error) rounds.MeasureFunc {
		return func(context.Context) (float64, map[string]float64, error) { return d.round(b, draws, members, draw) }
	}
	roundstest.Compare(b, rounds.Result{
		Name: "reward_draw", What: "draw a prize with a stock, 256 members", Besides: "one transaction per draw, 64 members", Unit: "µs per draw",
		Must: 5, Aim: 8, Limits: map[string]float64{"claim_ms": 5},
	}, side(groupDraws, groupMembers, func(member string) error {
		_, err := service.Draw(b.Context(), "d", member, "")
		return err
	}), side(baselineDraws, poolMembers, d.drawAlone))
	require.NoError(b, store.Close(b.Context()))
	require.NoError(b, d.payouts.Close(b.Context()))
}

// drawing is a campaign in which members draw.
type drawing struct {
	pool    *pgxpool.Pool
	payouts *postgres.Payouts
	ctx     context.Context //nolint:containedctx // that of the benchmark, for draws
}

// round returns the µs per draw, and the median ms of a claim of payouts meanwhile.
func (d *drawing) round(b *testing.B, draws, members int, draw func(member string) error) (float64, map[string]float64, error) {
	b.Helper()
	d.ctx = b.Context()
	for _, sql := range []string{
		`TRUNCATE event_reward_allocation, event_entry, prizes, campaigns, campaign_totals CASCADE`,
		`INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at) VALUES ('d', 'Draw', 'RANDOM', now() - interval '1 h', now() + interval '1 h')`,
		`INSERT INTO prizes (event_id, name, kind, value, weight, stock, initial) VALUES ('d', 'points', 'POINT', 5, 1, 1000000, 1000000)`,
	} {
		_, err := d.pool.Exec(b.Context(), sql)
		require.NoError(b, err)
	}
	stop := d.claim(b)
	var next atomic.Int64
	var work sync.WaitGroup
	began := time.Now()
	for range members {
		work.Go(func() {
			for n := next.Add(1); n <= int64(draws); n = next.Add(1) {
				if err := draw(fmt.Sprint("m", n)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	work.Wait()
	elapsed := time.Since(began)
	claim := stop()
	var rewards, left int
	require.NoError(b, d.pool.QueryRow(b.Context(), `SELECT count(*), (SELECT stock FROM prizes) FROM event_reward_allocation`).Scan(&rewards, &left))
	require.Equal(b, draws, rewards)
	require.Equal(b, 1_000_000-draws, left)
	return elapsed.Seconds() * 1e6 / float64(draws), map[string]float64{"claim_ms": claim.Seconds() * 1e3}, nil
}

// claim claims payouts until stop is called, which returns the median time of a claim.
func (d *drawing) claim(b *testing.B) (stop func() time.Duration) {
	b.Helper()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan []time.Duration, 1)
	go func() {
		var durations []time.Duration
		for ctx.Err() == nil {
			began := time.Now()
			if _, err := d.payouts.Claim(b.Context(), payout.Coupon, 10, policy()); err != nil {
				b.Error(err)
			}
			durations = append(durations, time.Since(began))
		}
		done <- durations
	}()
	return func() time.Duration {
		cancel()
		durations := <-done
		slices.Sort(durations)
		return durations[len(durations)/2]
	}
}

// drawAlone is the baseline: a transaction for each draw, without the checks of a campaign.
func (d *drawing) drawAlone(member string) error {
	return pgx.BeginFunc(d.ctx, d.pool, func(tx pgx.Tx) error {
		if _, err := tx.Exec(d.ctx, `SELECT pg_advisory_xact_lock(hashtextextended('reward:d:' || $1, 0))`, member); err != nil {
			return err
		}
		var prize, entry int64
		if err := tx.QueryRow(d.ctx, `UPDATE prizes SET stock = stock - 1 WHERE event_id = 'd' AND stock > 0 RETURNING id`).Scan(&prize); err != nil {
			return err
		}
		if err := tx.QueryRow(d.ctx, `
			INSERT INTO event_entry (event_id, member_id, period, prize_id, created_at) VALUES ('d', $1, 'CAMPAIGN', $2, now())
			RETURNING id`, member, prize).Scan(&entry); err != nil {
			return err
		}
		_, err := tx.Exec(d.ctx, `
			INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key)
			VALUES ('d', $1, $2, 'POINT', 5, 'DRAW', 'rand-d-' || $1 || '-log-' || $2::bigint)`, member, entry)
		return err
	})
}
