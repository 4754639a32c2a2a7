//go:build failpoint

package app_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/reward/internal/payout"
	"urr.guru/services/reward/sandbox"
)

// A replica is suspended after its call has ended and before the outcome is written; another one
// takes the reward over. The outcome that arrives late counts only if it is a payment.
func TestOutcomeOfReplicaSuspendedPastItsLease(t *testing.T) {
	t.Parallel()
	t.Run("failure", func(t *testing.T) {
		t.Parallel()
		c := newCrashTest(t)
		c.provider.SetFaults(sandbox.Faults{Refused: 1})
		s := c.suspendBeforeOutcome()
		c.provider.SetFaults(sandbox.Faults{})
		taken := c.get()
		s.resume()
		c.metric(s.replica, `urr_reward_late_total{kind="POINT"}`, 1)
		require.Equal(t, taken, c.get(), "the other replica still holds it")
		s.release()
		c.until(payout.Success)
		require.Len(t, c.ledger.All(), 1)
	})
	t.Run("success", func(t *testing.T) {
		t.Parallel()
		c := newCrashTest(t)
		s := c.suspendBeforeOutcome()
		require.Equal(t, payout.Processing, c.get().Status)
		s.resume()
		c.until(payout.Success)
		late := c.get()
		s.release()
		c.metric(s.other, `urr_reward_late_total{kind="POINT"}`, 1)
		require.Equal(t, late, c.get(), "the other replica's payment is the same one")
		require.Len(t, c.ledger.All(), 1)
		require.Equal(t, c.ledger.All()[0].TransactionID, late.TransactionID)
	})
}

// suspended is a replica with an outcome that it has not written, and another one whose call for
// the same reward is held.
type suspended struct {
	replica, other replica
	resume         func()
	release        func()
}

func (c *crashTest) suspendBeforeOutcome() suspended {
	c.t.Helper()
	at := newFailpointFile(c.t)
	first := c.start(nil, "payout.before_settle@1=hold:"+string(at))
	at.reached(c.t)
	first.Signal(syscall.SIGSTOP)
	arrived, release := c.calls.hold(c.t)
	c.lapse()
	other := c.start(nil, "")
	testkit.Receive(c.t, arrived, "the call of the other replica")
	return suspended{replica: first, other: other, release: release, resume: func() {
		at.leave(c.t)
		first.Signal(syscall.SIGCONT)
	}}
}

// A replica is suspended between its claim and its call until the lease has ended: it sends
// nothing.
func TestReplicaSuspendedBeforeItsCallSendsNothing(t *testing.T) {
	t.Parallel()
	c := newCrashTest(t)
	at := newFailpointFile(t)
	p := c.start(map[string]string{"REWARD_CALL_TIMEOUT": "100ms", "REWARD_LEASE": "200ms"}, "payout.after_claim@1=hold:"+string(at))
	at.reached(t)
	p.Signal(syscall.SIGSTOP)
	testkit.Until(t, func() bool {
		var lapsed bool
		require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT lease_until < now() FROM event_reward_allocation`).Scan(&lapsed))
		return lapsed
	}, "the end of the lease")
	require.NoError(t, c.operators().Pause(t.Context(), payout.Point)) // no replica takes it over
	at.leave(t)
	p.Signal(syscall.SIGCONT)
	c.metric(p, `urr_reward_late_total{kind="POINT"}`, 1)
	require.Zero(t, c.provider.Calls(c.key))
	require.Equal(t, payout.Processing, c.get().Status)
	p.Kill()

	require.NoError(t, c.operators().Resume(t.Context(), payout.Point))
	c.start(nil, "")
	c.until(payout.Success)
	require.Equal(t, 1, c.provider.Calls(c.key))
	require.Len(t, c.ledger.All(), 1)
}

// A replica is killed during its call, which pays: another one takes the reward over and repeats
// the call under the same key.
func TestRewardOfKilledReplicaIsTakenUp(t *testing.T) {
	t.Parallel()
	c := newCrashTest(t)
	arrived, release := c.calls.hold(t)
	killed := c.start(map[string]string{"REWARD_CALL_TIMEOUT": "500ms", "REWARD_LEASE": "1s"}, "")
	testkit.Receive(t, arrived, "the call")
	killed.Kill()
	require.Equal(t, payout.Processing, c.get().Status)
	release()
	c.start(nil, "")
	c.until(payout.Success)
	_, calls, err := c.operators().Get(t.Context(), c.id)
	require.NoError(t, err)
	require.Len(t, calls, 2)
	require.Zero(t, calls[0].EndedAt, "its outcome was never written")
	require.Equal(t, []payout.Action{payout.Pay, payout.Pay}, []payout.Action{calls[0].Action, calls[1].Action})
	t.Logf("taken up %v after the first call; the lease was 1 s", calls[1].SentAt.Sub(calls[0].SentAt))
	testkit.Until(t, func() bool { return c.provider.Calls(c.key) == 2 }, "both calls to reach the provider")
	require.Len(t, c.ledger.All(), 1)
}

// A reward that kills each worker that claims it is held after the fifth death, and counted for the
// alert.
func TestRewardThatKillsItsWorkersIsHeld(t *testing.T) {
	t.Parallel()
	c := newCrashTest(t)
	for range 5 {
		p := c.start(nil, "payout.after_claim@1=exit")
		require.ErrorContains(t, p.Wait(), "killed")
		require.Equal(t, payout.Processing, c.get().Status)
		c.lapse()
	}
	p := c.start(nil, "payout.after_claim@1=exit")
	c.metric(p, `urr_reward_abandoned_total{kind="POINT"}`, 1)
	a := c.get()
	require.Equal(t, payout.Failed, a.Status)
	require.Equal(t, payout.CodeWorkersDied, a.Code)
	require.NotZero(t, a.HeldAt)
	require.Zero(t, a.NextRetryAt)
	c.metric(c.start(nil, ""), `urr_rewards_held{kind="POINT"}`, 1)
	require.Zero(t, c.provider.Calls(c.key))
}
