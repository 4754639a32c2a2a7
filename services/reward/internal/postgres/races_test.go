package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/campaign"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/internal/postgres"
	"urr.guru/services/reward/internal/postgres/db"
	"urr.guru/services/reward/sandbox"
)

// If a cancellation commits after a claim's snapshot and before its lock on the row, the claim
// follows it: it asks the provider.
func TestClaimDecidesByTheLockedRow(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	env.set(t, `reward_status = 'FAILED', next_retry_at = now() - interval '1 h', unknown_since = now() - interval '1 s', last_call_at = now() - interval '1 s'`)
	// A policy, which superusers are exempt from, runs a function for each row that is read: after the
	// snapshot, before the lock.
	_, err := env.pool.Exec(t.Context(), `
		CREATE FUNCTION gate() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN
			PERFORM pg_advisory_xact_lock_shared(1);
			RETURN true;
		END $$;
		ALTER TABLE event_reward_allocation ENABLE ROW LEVEL SECURITY;
		CREATE POLICY gated ON event_reward_allocation USING (gate());
		CREATE ROLE `+role(env.pool)+`;
		GRANT ALL ON ALL TABLES IN SCHEMA public TO `+role(env.pool))
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := env.pool.Exec(context.Background(), `DROP OWNED BY `+role(env.pool)+`; DROP ROLE `+role(env.pool))
		require.NoError(t, err)
	})
	gate, err := env.pool.Acquire(t.Context())
	require.NoError(t, err)
	defer gate.Release()
	_, err = gate.Exec(t.Context(), `SELECT pg_advisory_lock(1)`)
	require.NoError(t, err)

	claims := make(chan []db.ClaimRow, 1)
	go func() {
		defer close(claims)
		tx, err := env.pool.Begin(t.Context())
		if err != nil {
			return
		}
		defer func() { _ = tx.Rollback(context.Background()) }()
		if _, err := tx.Exec(t.Context(), `SET LOCAL ROLE `+role(env.pool)); err != nil {
			return
		}
		rows, err := db.New(tx).Claim(t.Context(), db.ClaimParams{
			Kind: "POINT", Slots: 10, MaxRecoveries: 5, MaxAttempts: 6, ResendSeconds: 3600, LeaseSeconds: 30,
		})
		if err == nil {
			claims <- rows
		}
	}()
	awaitAdvisoryLock(t, env.pool)
	// What Cancel writes, but due before the snapshot, as if its transaction had begun earlier.
	env.set(t, `cancel_requested_at = now()`)
	_, err = gate.Exec(t.Context(), `SELECT pg_advisory_unlock(1)`)
	require.NoError(t, err)
	rows := testkit.Receive(t, claims, "the claim")
	require.Len(t, rows, 1)
	require.Equal(t, string(payout.Ask), rows[0].Action)
}

// role returns a role name that is unique on the server.
func role(pool *pgxpool.Pool) string { return pool.Config().ConnConfig.Database + "_reader" }

func awaitAdvisoryLock(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	testkit.Until(t, func() bool {
		var waiting bool
		require.NoError(t, pool.QueryRow(t.Context(), `
			SELECT EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
				AND database = (SELECT oid FROM pg_database WHERE datname = current_database()))`).Scan(&waiting))
		return waiting
	}, "somebody waits for the lock")
}

// A payout that ends because its campaign is marked as cancelled, before the cancellation has
// reached it, gives its prize back as well.
func TestRestockOfAPayoutThatEndsByTheMark(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	stock := int64(1)
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Prizes: []campaign.Prize{{Name: "p", Reward: points(5), Weight: 1, Stock: &stock}}})
	_, err := m.service.Draw(t.Context(), "d", "ann", "")
	require.NoError(t, err)
	database := postgres.New(m.pool, postgres.Options{Now: m.clock.Now})
	operators := postgres.Operators{Database: database, WakePayouts: func() {}}
	store := postgres.NewPayouts(database)
	t.Cleanup(func() { _ = store.Close(context.Background()) })
	claims, err := store.Claim(t.Context(), payout.Point, 1, policy())
	require.NoError(t, err)
	require.Len(t, claims, 1)
	require.NoError(t, operators.CancelCampaign(t.Context(), "d", true))
	_, err = store.Settle(t.Context(), payout.EndedCall{
		ID: claims[0].ID, Version: claims[0].Version, Action: claims[0].Action, Result: payout.CallResult{Outcome: payout.Refused},
	}, policy())
	require.NoError(t, err)
	a, _, err := operators.Get(t.Context(), claims[0].ID)
	require.NoError(t, err)
	require.Equal(t, payout.Cancelled, a.Status)
	c, _, err := m.service.Get(t.Context(), "d")
	require.NoError(t, err)
	require.Equal(t, int64(1), *c.Prizes[0].Stock)
}

// An entry that commits only after the first pass of a cancellation is cancelled too.
func TestEntryThatCommitsAfterTheCancellationIsCancelled(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	m.create(campaign.Campaign{EventID: "d", Kind: campaign.Random, Prizes: []campaign.Prize{{Name: "p", Reward: points(5), Weight: 1}}})
	database := postgres.New(m.pool, postgres.Options{Now: m.clock.Now})
	operators := postgres.Operators{Database: database, WakePayouts: func() {}}
	_, err := m.pool.Exec(t.Context(), `UPDATE campaigns SET cancelled_at = $1`, m.clock.Now())
	require.NoError(t, err)
	require.NoError(t, operators.CancelMarked(t.Context()))
	_, err = m.pool.Exec(t.Context(), `UPDATE campaigns SET cancelled_at = NULL`)
	require.NoError(t, err)
	e, err := m.service.Draw(t.Context(), "d", "ann", "")
	require.NoError(t, err)
	_, err = m.pool.Exec(t.Context(), `UPDATE campaigns SET cancelled_at = $1`, m.clock.Now())
	require.NoError(t, err)
	m.clock.Advance(11 * time.Second)
	require.NoError(t, operators.CancelMarked(t.Context()))
	a, _, err := operators.Get(t.Context(), e.Rewards[0].ID)
	require.NoError(t, err)
	require.Equal(t, payout.Cancelled, a.Status)
	var done bool
	require.NoError(t, m.pool.QueryRow(t.Context(), `SELECT cancel_done_at IS NOT NULL FROM campaigns`).Scan(&done))
	require.True(t, done)
}

// The announcement of a winner does not wait for a replica that rewards the earlier winners and has
// locked the campaign.
func TestWinnersAreAnnouncedWhileEarlierOnesAreRewarded(t *testing.T) {
	t.Parallel()
	m := newMembers(t, kst(t, "2026-03-01 12:00:00.000"))
	daily := points(100)
	m.create(campaign.Campaign{EventID: "w", Kind: campaign.RequestWinners, PromotionID: "promo", Daily: &daily})
	tx, err := m.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(context.Background()) }()
	_, err = db.New(tx).LockUnfinishedWinners(t.Context())
	require.NoError(t, err)
	winners := postgres.Winners{Database: postgres.New(m.pool, postgres.Options{Now: m.clock.Now})}
	rewarded, err := winners.Announce(t.Context(), announced("k", campaign.Winner{RequestID: "r", PromotionID: "promo", MemberID: "ann", At: m.clock.Now()}))
	require.NoError(t, err)
	require.Equal(t, 1, rewarded)
	_, err = tx.Exec(t.Context(), `SELECT 1`)
	require.NoError(t, err, "the announcement did not wait until this transaction was ended as idle")
}

// A worker died during a look-up, after an operator's retry. A look-up cannot pay, so the outcome
// of the reward is not unknown, however old the last payment call is.
func TestLookupOfADeadWorkerLeavesNothingUnknown(t *testing.T) {
	t.Parallel()
	env := newEnvironment(t, sandbox.Faults{})
	fill(t, env.pool, 1)
	env.set(t, `reward_status = 'FAILED', next_retry_at = NULL, last_call_at = now() - interval '30 d', error_code = 'REFUSED'`)
	_, err := env.operators().Retry(t.Context(), []int64{1})
	require.NoError(t, err)
	store := env.payouts(t)
	dying := policy()
	dying.Lease = 0
	for range 2 {
		claims, err := store.Claim(t.Context(), payout.Point, 1, dying)
		require.NoError(t, err)
		require.Len(t, claims, 1)
		require.Equal(t, payout.Ask, claims[0].Action)
		require.Zero(t, env.get(t).UnknownSince)
	}
}
