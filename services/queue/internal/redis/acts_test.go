package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

// act applies an operator's act to the line, and returns the act with its order number.
func (f *fixture) act(c line.SettingsChange) line.SettingsChange {
	f.t.Helper()
	s, order, err := f.store.Act(f.ctx(), f.event, f.known, c)
	f.observe(s, err)
	c.Act = order
	return c
}

// settleActs ends pending changes of settings, as decided or lost, and returns those still pending.
func (f *fixture) settleActs(decided, lost []line.SettingsChange) []line.SettingsChange {
	f.t.Helper()
	s, pending, err := f.store.UpdatePendingActs(f.ctx(), f.event, f.known, decided, lost)
	f.observe(s, err)
	require.EqualValues(f.t, len(pending), s.Pending)
	return pending
}

func (f *fixture) requirePending(want ...line.SettingsChange) {
	f.t.Helper()
	require.ElementsMatch(f.t, want, f.settleActs(nil, nil))
}

func TestActsAreInForceUntilTicketHasThem(t *testing.T) {
	f := setup(t, 1)
	f.join("in")
	threshold, pause := f.act(line.SettingsChange{Threshold: ptr(5)}), f.act(line.SettingsChange{Paused: new(true)})
	block, unblock := f.act(line.SettingsChange{Block: "in"}), f.act(line.SettingsChange{Unblock: "friend"})
	require.Equal(t, f.clock().UnixMicro(), threshold.Act)
	require.Equal(t, []int64{threshold.Act + 1, threshold.Act + 2, threshold.Act + 3}, []int64{pause.Act, block.Act, unblock.Act}, "in order")
	f.requirePending(threshold, pause, block, unblock)
	require.Equal(t, line.Blocked, f.status("in").State)

	f.advance(time.Second)
	st := f.apply(line.Settings{Threshold: ptr(2), Blocked: []string{"friend", "bot"}})
	require.Equal(t, []any{int64(5), true}, []any{st.Threshold, st.Paused}, "ticket's settings do not have them yet")
	require.Equal(t, line.NotInLine, f.status("friend").State)
	for _, user := range []string{"in", "bot"} {
		require.Equal(t, line.Blocked, f.status(user).State)
	}

	laterAct := f.act(line.SettingsChange{Threshold: ptr(6)})
	require.Len(t, f.settleActs([]line.SettingsChange{threshold, pause, block}, nil), 2)
	f.requirePending(laterAct, unblock)
	f.advance(time.Second)
	st = f.apply(line.Settings{Threshold: ptr(5)})
	require.Equal(t, []any{int64(6), false}, []any{st.Threshold, st.Paused})
	require.Equal(t, line.NotInLine, f.status("in").State)
}

// A replica that has cached older settings does not undo an act.
func TestActsOutlastRememberedSettings(t *testing.T) {
	f := setup(t, 1)
	before := f.known
	f.advance(time.Second)
	pause := f.act(line.SettingsChange{Paused: new(true)})
	f.wipe()
	require.Empty(t, f.settleActs(nil, []line.SettingsChange{pause})[1:])
	before.SettingsAt = f.clock().UnixMilli()
	f.known = before
	require.True(t, f.peek().Paused)
	f.requirePending(pause)
}

// An act restored after a loss does not replace a later one, and new acts are later than it.
func TestLostActsAreRestored(t *testing.T) {
	f := setup(t, 1)
	old := f.act(line.SettingsChange{Threshold: ptr(5)})
	pause := f.act(line.SettingsChange{Paused: new(true)})
	f.wipe()
	f.advance(time.Second)
	laterAct := f.act(line.SettingsChange{Threshold: ptr(6)})
	f.settleActs(nil, []line.SettingsChange{old, pause})
	f.requirePending(laterAct, pause)
	require.EqualValues(t, 6, f.peek().Threshold)
	f.advance(-time.Hour)
	require.Equal(t, laterAct.Act+1, f.act(line.SettingsChange{Paused: new(false)}).Act)
	require.Equal(t, laterAct.Act+100, f.act(line.SettingsChange{Paused: new(true), Act: laterAct.Act + 99}).Act)
	f.apply(line.Settings{Act: laterAct.Act + 200})
	require.Equal(t, laterAct.Act+201, f.act(line.SettingsChange{Paused: new(true)}).Act)
}

func TestActsNeedALine(t *testing.T) {
	f := unopened(t)
	s, order, err := f.store.Act(f.ctx(), f.event, f.known, line.SettingsChange{Paused: new(true)})
	require.NoError(t, err)
	require.False(t, s.Exists())
	require.Zero(t, order)
	s, acts, err := f.store.UpdatePendingActs(f.ctx(), f.event, f.known, nil, nil)
	require.NoError(t, err)
	require.False(t, s.Exists())
	require.Empty(t, acts)
}

func TestActsBlockNoMoreThanAllowed(t *testing.T) {
	f := setup(t, 1)
	members := make([]any, line.MaxBlockedUsers)
	for i := range members {
		members[i] = i
	}
	require.NoError(t, f.client.SAdd(f.ctx(), f.key("blocked"), members...).Err())
	_, _, err := f.store.Act(f.ctx(), f.event, f.known, line.SettingsChange{Block: "bot"})
	require.ErrorIs(t, err, errs.ErrTooManyBlocked)
	f.requirePending()
	f.act(line.SettingsChange{Block: "7"})
	f.act(line.SettingsChange{Unblock: "8"})
	f.act(line.SettingsChange{Block: "bot"})
}
