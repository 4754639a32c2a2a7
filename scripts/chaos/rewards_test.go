package chaos_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
	provider "urr.guru/services/reward/sandbox"
)

// rewardReplicas pay concurrently.
const rewardReplicas = 3

// rewards is a run of the payouts under faults.
type rewards struct {
	*harness.Platform
	t    *testing.T
	size rewardSize
	db   *pgxpool.Pool
	// kept and cancelled are the campaigns; an operator cancels the second one during the run.
	kept, cancelled string
	faulty          provider.Faults // the provider's usual behaviour
	inserted        atomic.Int64
	kills, stops    int
	begun           time.Time // by the database's clock
}

// rewardSize is the size of a run and its times. All are short, so that the effects of a fault are
// repaired within the test.
type rewardSize struct {
	waves, rows  int // rows of each wave
	slots        int // calls of a replica at once
	settle, keys time.Duration
	slow, late   time.Duration // of an answer past the lease, of a payment after the connection is gone
	stop         time.Duration // of a suspended replica, at most
}

const (
	rewardCall  = 750 * time.Millisecond
	rewardLease = 1500 * time.Millisecond
	// rewardDelay is that of every answer, so that calls are under way at a kill.
	rewardDelay = 200 * time.Millisecond
)

var (
	longRewards = rewardSize{
		waves: 40, rows: 250, slots: 16, settle: 4 * time.Second, keys: 10 * time.Second, slow: 2 * time.Second, late: 1500 * time.Millisecond,
		stop: 4 * time.Second,
	}
	shortRewards = rewardSize{
		waves: 4, rows: 125, slots: 6, settle: 3 * time.Second, keys: 6 * time.Second, slow: 1800 * time.Millisecond, late: 700 * time.Millisecond,
		stop: 2 * time.Second,
	}
)

// TestRewardsUnderFaults pays rewards through a provider that loses every fifth answer, and every
// second one to a void, while replicas are killed and suspended past their leases in an order that
// the seed decides, and an operator cancels and retries. In the end every reward is either paid
// once by the provider's ledger, or cancelled and never paid. The short form has 500 rewards and no
// fault of the provider's process.
func TestRewardsUnderFaults(t *testing.T) {
	sideBySide(t)
	seed, rng := order(t)
	size := shortRewards
	if *full {
		size = longRewards
	}
	r := setupRewards(t, size, seed)
	faults := r.faults(rng)
	end := r.operate(rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // a repeatable order, not a secret
	for i := range size.waves {
		r.insert(size.rows, i <= size.waves/2)
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second)))) // until some are claimed
		t.Logf("%v: %d inserted, %d due: %s", time.Since(r.begun).Round(time.Millisecond), r.inserted.Load(), r.due(), faults[i].name)
		faults[i].do()
	}
	end()
	r.SetRewardFaults(r.quiet())
	r.requireSettled()
	r.requireAllPaid()
	r.logFigures()
}

// setupRewards starts the replicas; env overrides their settings.
func setupRewards(t *testing.T, size rewardSize, seed uint64, env ...string) *rewards {
	t.Helper()
	r := &rewards{
		t: t, size: size, kept: fmt.Sprintf("kept%d", seed), cancelled: fmt.Sprintf("cancelled%d", seed),
		faulty: provider.Faults{
			Seed: seed, Refused: 0.05, RefusedForGood: 0.01, Busy: 0.02, Unavailable: 0.02, Silent: 0.01, Lost: 0.2, Failed: 0.01,
			Slow: 0.02, SlowFor: size.slow, Late: 0.03, LateFor: size.late, NoVoid: 0.3, VoidLost: 0.5, KeyRetention: size.keys,
		},
	}
	r.Platform = harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.Reward}, Replicas: map[string]int{platform.Reward: rewardReplicas}, Links: true,
		Env: map[string][]string{platform.Reward: append([]string{
			"REWARD_CALL_TIMEOUT=" + rewardCall.String(), "REWARD_LEASE=" + rewardLease.String(), "REWARD_MAX_ATTEMPTS=6",
			"REWARD_RETRY_MIN=400ms", "REWARD_RETRY_MAX=1s", "REWARD_SETTLE_TIME=" + size.settle.String(),
			"REWARD_KEY_RETENTION=" + size.keys.String(), "REWARD_LOOKUP_RETENTION=1h", "REWARD_SLOTS=" + strconv.Itoa(size.slots),
		}, env...)},
	})
	r.db = r.DB(platform.Reward)
	r.SetRewardFaults(r.faulty)
	r.Link(platform.Reward, platform.Sandbox).Delay(rewardDelay)
	_, err := r.db.Exec(t.Context(), `
		INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at)
		SELECT unnest($1::text[]), 'Chaos', 'RANDOM', now() - interval '1 h', now() + interval '1 h'`, []string{r.kept, r.cancelled})
	require.NoError(t, err)
	require.NoError(t, r.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&r.begun))
	return r
}

// quiet is the provider without faults; what it has forgotten stays forgotten.
func (r *rewards) quiet() provider.Faults {
	return provider.Faults{KeyRetention: r.size.keys}
}

// insert adds rewards that are due. Their keys follow from the seed, and so do the provider's
// faults.
func (r *rewards) insert(n int, both bool) {
	r.t.Helper()
	_, err := r.db.Exec(r.t.Context(), `
		WITH entries AS (
			INSERT INTO event_entry (event_id, member_id, period, created_at)
			SELECT CASE WHEN $4 AND n % 5 = 0 THEN $3 ELSE $2 END, 'm' || n, 'CAMPAIGN', now() FROM generate_series($5::int + 1, $5::int + $1::int) AS n
			RETURNING id, event_id, member_id)
		INSERT INTO event_reward_allocation (event_id, member_id, entry_id, reward_kind, reward_value, reason, idempotency_key)
		SELECT event_id, member_id, id, CASE id % 2 WHEN 0 THEN 'POINT' ELSE 'COUPON' END, 1 + id, 'DRAW', 'rand-' || event_id || '-' || member_id || '-log-' || id
		FROM entries`, n, r.kept, r.cancelled, both, r.inserted.Load())
	require.NoError(r.t, err)
	r.inserted.Add(int64(n))
}

func (r *rewards) due() (n int) {
	r.t.Helper()
	n, err := r.count(r.t.Context(), `reward_status IN ('PENDING', 'PROCESSING') OR reward_status = 'FAILED' AND next_retry_at IS NOT NULL`)
	require.NoError(r.t, err)
	return n
}

func (r *rewards) count(ctx context.Context, condition string) (n int, err error) {
	err = r.db.QueryRow(ctx, `SELECT count(*) FROM event_reward_allocation WHERE `+condition).Scan(&n)
	return n, err
}
