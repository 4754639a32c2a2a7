package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/benchtest"
	"urr.guru/pkg/benchtest/gotest"
	"urr.guru/pkg/outbox"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
)

// The numbers of rows that a round pays: enough for about a second of each variant.
const (
	engineRows   = 10_000
	baselineRows = 1_000
)

// BenchmarkRewardClaim is the row reward_claim of `make bench`. It compares the engine, which
// claims rewards and writes outcomes in batches of 100, with one worker that uses one transaction
// per row. The provider answers at once. Both leave the same rows in all tables.
func BenchmarkRewardClaim(b *testing.B) {
	pool := open(b)
	side := func(rows int, pay func()) benchtest.MeasureFunc {
		return func(context.Context) (float64, map[string]float64, error) {
			return perRow(b, pool, rows, pay), nil, nil
		}
	}
	gotest.Compare(b, benchtest.Result{
		Name: "reward_claim", What: "claim and settle a reward, in batches", Besides: "one row per transaction", Unit: "µs per reward", Must: 10, Aim: 12,
	}, side(engineRows, func() { payAll(b, pool) }), side(baselineRows, func() { payOneByOne(b, pool) }))
}

// perRow returns the µs that pay takes per row.
func perRow(b *testing.B, pool *pgxpool.Pool, rows int, pay func()) float64 {
	b.Helper()
	_, err := pool.Exec(b.Context(), `TRUNCATE outbox, reward_call, event_reward_allocation, event_entry`)
	require.NoError(b, err)
	fill(b, pool, rows)
	began := time.Now()
	pay()
	elapsed := time.Since(began)
	for condition, table := range map[string]string{
		`reward_status = 'SUCCESS'`: "event_reward_allocation", `outcome = 'PAID'`: "reward_call", `type = 'REWARD_PAID'`: "outbox",
	} {
		var n int
		require.NoError(b, pool.QueryRow(b.Context(), fmt.Sprintf(`SELECT count(*) FROM %s WHERE %s`, table, condition)).Scan(&n))
		require.Equal(b, rows, n, table)
	}
	return elapsed.Seconds() * 1e6 / float64(rows)
}

// payAll runs the engine until nothing is left.
func payAll(b *testing.B, pool *pgxpool.Pool) {
	b.Helper()
	store := postgres.NewPayouts(postgres.New(pool, postgres.Options{}))
	ctx, cancel := context.WithCancel(b.Context())
	provider := &instant{left: engineRows, done: cancel}
	p := policy()
	p.CallTimeout, p.Lease = 10*time.Second, 30*time.Second
	require.NoError(b, payout.NewEngine(payout.Point, store, provider, p, 200, slog.New(slog.DiscardHandler)).Run(ctx))
	require.NoError(b, store.Close(b.Context()))
}

// instant is a provider that pays without delay.
type instant struct {
	left int64
	paid atomic.Int64
	done func() // called with the last payment
}

var _ payout.Provider = (*instant)(nil)

func (p *instant) Pay(_ context.Context, a payout.Allocation) payout.CallResult {
	if p.paid.Add(1) == p.left {
		p.done()
	}
	return payout.CallResult{Outcome: payout.Paid, TransactionID: "tx-" + a.KeyToSend()}
}

func (*instant) Lookup(context.Context, string) payout.CallResult {
	return payout.CallResult{Outcome: payout.Unknown}
}
func (*instant) Void(context.Context, string) payout.CallResult {
	return payout.CallResult{Outcome: payout.Unknown}
}
func (*instant) CallsAllowed() int { return 100 }

const (
	claimOne = `
		WITH claimed AS (
			UPDATE event_reward_allocation
			SET reward_status = 'PROCESSING', version = version + 1, lease_until = now() + interval '30 s', last_call_at = now()
			WHERE id = (SELECT id FROM event_reward_allocation
			            WHERE reward_kind = 'POINT' AND reward_status = 'PENDING' AND next_retry_at <= now()
			            ORDER BY next_retry_at LIMIT 1 FOR UPDATE SKIP LOCKED)
			RETURNING id, version, member_id, idempotency_key
		), call AS (
			INSERT INTO reward_call (allocation_id, version, action, sent_at) SELECT id, version, 'PAY', now() FROM claimed
		)
		SELECT id, version, member_id, idempotency_key FROM claimed`
	settleOne = `
		UPDATE event_reward_allocation
		SET reward_status = 'SUCCESS', version = version + 1, lease_until = NULL, next_retry_at = NULL, external_transaction_id = $3, processed_at = now()
		WHERE id = $1 AND version = $2 AND reward_status = 'PROCESSING'`
	endOne = `UPDATE reward_call SET ended_at = now(), outcome = 'PAID' WHERE allocation_id = $1 AND version = $2`
)

// payOneByOne is the baseline: one worker, a transaction for each claim and for each outcome.
func payOneByOne(b *testing.B, pool *pgxpool.Pool) {
	b.Helper()
	for {
		var id, version int64
		var member, key string
		err := pool.QueryRow(b.Context(), claimOne).Scan(&id, &version, &member, &key)
		if errors.Is(err, pgx.ErrNoRows) {
			return
		}
		require.NoError(b, err)
		require.NoError(b, pgx.BeginFunc(b.Context(), pool, func(tx pgx.Tx) error {
			if _, err := tx.Exec(b.Context(), settleOne, id, version, "tx-"+key); err != nil {
				return err
			}
			if _, err := tx.Exec(b.Context(), endOne, id, version); err != nil {
				return err
			}
			allocation := fmt.Sprint(id)
			return outbox.Insert(b.Context(), tx, "reward", outbox.Event{
				Topic: events.Rewards, Key: allocation, Type: events.RewardPaid, EntityVersion: version + 1, Payload: &eventsv1.RewardEvent{
					Type: events.RewardPaid, AllocationId: allocation, EventId: "c", UserId: member, RewardKind: "POINT", Value: 100,
					Status: "SUCCESS", TransactionId: "tx-" + key, Version: version + 1, OccurredAt: timestamppb.Now(),
				},
			})
		}))
	}
}
