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

// rewardReplicas is the number of replicas, which pay concurrently.
const rewardReplicas = 3

// rewards is a run of payouts under faults.
type rewards struct {
	*harness.Platform
	t    *testing.T
	size rewardSize
	db   *pgxpool.Pool
	// keptCampaign and cancelledCampaign are event ids. An operator cancels the second campaign.
	keptCampaign, cancelledCampaign string
	usualFaults                     provider.Faults // the provider's usual behaviour
	inserted                        atomic.Int64
	kills, stops                    int
	begun                           time.Time // start of the run, by the database's clock
}

// rewardSize is the size of a run and its times. All are short, so that the effects of a fault are
// repaired within the test.
type rewardSize struct {
	waves, rows              int // number of waves, and rewards per wave
	slots                    int // concurrent calls of a replica
	settleTime, keyRetention time.Duration
	slow, late               time.Duration // delay of slow answers; of late payments
	maxSuspend               time.Duration // maximum time for which a replica is suspended
}

const (
	rewardCall  = 750 * time.Millisecond
	rewardLease = 1500 * time.Millisecond
	// rewardDelay delays every answer of the provider, so that a kill finds calls in progress.
	rewardDelay = 200 * time.Millisecond
)

var (
	longRewards = rewardSize{
		waves: 40, rows: 250, slots: 16, settleTime: 4 * time.Second, keyRetention: 10 * time.Second, slow: 2 * time.Second, late: 1500 * time.Millisecond,
		maxSuspend: 4 * time.Second,
	}
	shortRewards = rewardSize{
		waves: 4, rows: 125, slots: 6, settleTime: 3 * time.Second, keyRetention: 6 * time.Second, slow: 1800 * time.Millisecond, late: 700 * time.Millisecond,
		maxSuspend: 2 * time.Second,
	}
)

// TestRewardsUnderFaults pays rewards through a provider that loses every fifth answer, and every
// second answer to a void. Meanwhile replicas are killed, and suspended past their leases, in an
// order that the seed decides, and an operator cancels and retries. In the end every reward is
// either paid once by the provider's ledger, or cancelled and never paid. The short form has 500
// rewards and no fault of the provider's process.
func TestRewardsUnderFaults(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	size := shortRewards
	if *full {
		size = longRewards
	}
	r := setupRewards(t, size, seed)
	faults := r.faults(rng)
	end := r.operate(rand.New(rand.NewPCG(seed, 1))) //nolint:gosec // a repeatable order, not a secret
	for i := range size.waves {
		r.insert(size.rows, i <= size.waves/2)
		time.Sleep(time.Duration(rng.Int64N(int64(time.Second)))) // until replicas have claimed some
		t.Logf("%v: %d inserted, %d due: %s", time.Since(r.begun).Round(time.Millisecond), r.inserted.Load(), r.due(), faults[i].name)
		faults[i].inject()
	}
	end()
	r.SetRewardFaults(r.noFaults())
	r.requireSettled()
	r.requireAllPaid()
	r.logFigures()
}

// setupRewards starts the replicas; env overrides their settings.
func setupRewards(t *testing.T, size rewardSize, seed uint64, env ...string) *rewards {
	t.Helper()
	r := &rewards{
		t: t, size: size, keptCampaign: fmt.Sprintf("kept%d", seed), cancelledCampaign: fmt.Sprintf("cancelled%d", seed),
		usualFaults: provider.Faults{
			Seed: seed, Refused: 0.05, RefusedForGood: 0.01, Busy: 0.02, Unavailable: 0.02, Silent: 0.01, Lost: 0.2, Failed: 0.01,
			Slow: 0.02, SlowFor: size.slow, Late: 0.03, LateFor: size.late, NoVoid: 0.3, VoidLost: 0.5, KeyRetention: size.keyRetention,
		},
	}
	r.Platform = harness.Start(t, harness.Options{
		Services: []string{platform.Sandbox, platform.Reward}, Replicas: map[string]int{platform.Reward: rewardReplicas}, Links: true,
		Env: map[string][]string{platform.Reward: append([]string{
			"REWARD_CALL_TIMEOUT=" + rewardCall.String(), "REWARD_LEASE=" + rewardLease.String(), "REWARD_MAX_ATTEMPTS=6",
			"REWARD_RETRY_MIN=400ms", "REWARD_RETRY_MAX=1s", "REWARD_SETTLE_TIME=" + size.settleTime.String(),
			"REWARD_KEY_RETENTION=" + size.keyRetention.String(), "REWARD_LOOKUP_RETENTION=1h", "REWARD_SLOTS=" + strconv.Itoa(size.slots),
		}, env...)},
	})
	r.db = r.DB(platform.Reward)
	r.SetRewardFaults(r.usualFaults)
	r.Link(platform.Reward, platform.Sandbox).Delay(rewardDelay)
	_, err := r.db.Exec(t.Context(), `
		INSERT INTO campaigns (event_id, title, kind, opens_at, closes_at)
		SELECT unnest($1::text[]), 'Chaos', 'RANDOM', now() - interval '1 h', now() + interval '1 h'`, []string{r.keptCampaign, r.cancelledCampaign})
	require.NoError(t, err)
	require.NoError(t, r.db.QueryRow(t.Context(), `SELECT clock_timestamp()`).Scan(&r.begun))
	return r
}

// noFaults returns provider settings without faults. Keys that it has forgotten stay forgotten.
func (r *rewards) noFaults() provider.Faults {
	return provider.Faults{KeyRetention: r.size.keyRetention}
}

// insert adds n rewards that are due. Their keys follow from the seed, and so do the provider's
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
		FROM entries`, n, r.keptCampaign, r.cancelledCampaign, both, r.inserted.Load())
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
