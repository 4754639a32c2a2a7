package redis_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis"
)

func (f *fixture) revoke(user string) bool {
	f.t.Helper()
	s, ok, err := f.store.Revoke(f.ctx(), f.event, f.known, user)
	f.observe(s, err)
	return ok
}

func (f *fixture) block(users ...string) line.LineState {
	f.t.Helper()
	return f.observe(f.store.Block(f.ctx(), f.event, f.known, users))
}

func TestRevokedSlotIsFree(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("next")
	require.True(t, f.revoke("in"))
	require.False(t, f.revoke("in"), "the slot has ended")
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "in", Entry: f.entry(in)}).State)
	again := f.join("in")
	require.Equal(t, []any{line.Waiting, int64(1)}, []any{again.State, again.Ahead}, "behind who waits")
	f.live(time.Second, "next", "in")
	require.Equal(t, []string{"next"}, f.set("active"))
}

// Revoking also ends a slot that its holder has not claimed yet, and the place is not kept.
func TestUnclaimedSlotIsRevoked(t *testing.T) {
	f := setup(t, 0)
	f.join("a")
	f.apply(line.Settings{Threshold: ptr(1)})
	f.live(time.Second)
	require.Equal(t, []string{"a"}, f.set("unclaimed"))
	require.True(t, f.revoke("a"))
	require.Empty(t, append(f.set("unclaimed"), f.set("parked")...))
}

func TestRevokeKeepsPlaces(t *testing.T) {
	f := setup(t, 1)
	f.join("in")
	place := f.join("w")
	require.False(t, f.revoke("w"))
	require.False(t, f.revoke("nobody"))
	require.Equal(t, place.Score, f.status("w").Score)
}

// Revoking an expired slot that no tick has ended yet reports that there was none.
func TestExpiredSlotIsNotRevoked(t *testing.T) {
	f := setup(t, 1)
	f.join("in")
	f.advance(11 * time.Minute)
	require.False(t, f.revoke("in"))
}

func TestRevokedSlotIsNotRestored(t *testing.T) {
	for name, c := range map[string]struct {
		lose  func(f *fixture)
		ended bool
	}{
		"its data survived": {func(f *fixture) { f.failover() }, true},
		"its data was lost": {func(f *fixture) { f.wipe() }, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 2)
			in, other := f.join("in"), f.join("other")
			f.advance(time.Second)
			claims := map[string]*line.EntryClaims{"in": f.entry(in), "other": f.entry(other)}
			c.lose(f)
			require.True(t, f.peek().Recovering())
			require.Equal(t, c.ended, f.revoke("in"))
			require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "in", Entry: claims["in"]}).State)
			require.Equal(t, line.Inside, f.claim(line.PlaceClaim{UserID: "other", Entry: claims["other"]}).State)
		})
	}
}

func TestBlockedUsersLeaveTheLine(t *testing.T) {
	f := setup(t, 1)
	in, parked := f.join("in"), f.join("parked")
	f.join("w")
	f.live(30*time.Second, "in", "w")
	f.release("in", in.SlotID)
	f.live(2*time.Second, "w")
	f.join("next")
	require.Equal(t, [][]string{{"parked"}, {"w"}, {"next"}}, [][]string{f.set("parked"), f.set("active"), f.set("queue")})
	f.apply(line.Settings{Threshold: ptr(1), Blocked: []string{"w", "parked", "next", "later"}})
	for _, key := range []string{"active", "queue", "parked", "parked-seen", "seen", "unclaimed"} {
		require.Empty(t, f.set(key), key)
	}
	for _, user := range []string{"w", "parked", "next", "later"} {
		require.Equal(t, line.Blocked, f.join(user).State, user)
		require.Equal(t, line.Blocked, f.status(user).State, user)
	}
	f.apply(line.Settings{Threshold: ptr(0)})
	f.advance(time.Second)
	again := f.claim(line.PlaceClaim{UserID: "parked", Join: true, Ticket: f.ticket(parked)})
	require.Equal(t, []any{line.Waiting, f.clock().UnixMicro()}, []any{again.State, again.Score}, "as a newcomer")
}

// After a loss each replica blocks the users that it has cached, until the settings are read.
func TestBlockAddsToTheBlocked(t *testing.T) {
	f := setup(t, 3)
	f.join("a")
	f.join("b")
	f.block("a")
	f.block("a", "c")
	require.Equal(t, []string{"b"}, f.set("active"))
	for user, want := range map[string]line.VisitorState{"a": line.Blocked, "b": line.Inside, "c": line.Blocked} {
		require.Equal(t, want, f.status(user).State, user)
	}
	f.apply(line.Settings{Blocked: []string{"c"}})
	require.Equal(t, line.Inside, f.join("a").State)
}

// The first call after a loss may come from a replica that does not know of the pause yet.
func TestLatestRememberedSettingsCount(t *testing.T) {
	f := setup(t, 5)
	stale := f.known
	f.advance(time.Second)
	f.apply(line.Settings{Threshold: ptr(5), Paused: true})
	latest := f.known
	f.wipe()
	f.known = stale
	require.False(t, f.peek().Paused)
	f.known = latest
	require.True(t, f.peek().Paused)
	f.known = stale
	require.True(t, f.peek().Paused)
}

func TestPausedLineAdmitsNobody(t *testing.T) {
	f := setup(t, 3)
	f.join("in")
	f.apply(line.Settings{Threshold: ptr(3), Paused: true})
	require.Equal(t, line.Waiting, f.join("a").State, "there are free slots")
	f.join("b")
	f.live(5*time.Second, "in", "a", "b")
	require.Equal(t, []string{"in"}, f.set("active"))
	f.apply(line.Settings{Threshold: ptr(3)})
	f.advance(time.Second)
	require.Equal(t, int64(2), f.tick().Admitted)
}

// One call can block the most users that the ticket service allows.
func TestManyBlockedUsers(t *testing.T) {
	f := setup(t, 1)
	users := make([]string, 10_000)
	for i := range users {
		users[i] = fmt.Sprintf("blocked-user-%05d-of-a-length-that-is-common", i)
	}
	require.Equal(t, line.Inside, f.join(users[9999]).State)
	require.Equal(t, line.Waiting, f.join(users[700]).State)
	f.apply(line.Settings{Blocked: users})
	require.Empty(t, append(f.set("active"), f.set("queue")...))
	f.block(users...)
	f.apply(line.Settings{Blocked: users[1:]})
	require.Equal(t, line.Blocked, f.join(users[9999]).State)
	require.Equal(t, line.Inside, f.join(users[0]).State)
}

func TestOperatorsActsOnCluster(t *testing.T) {
	t.Parallel()
	client, event := redistest.OpenCluster(t), redistest.ClusterPrefix(t)
	store, err := redis.NewStore(client, line.DefaultRules(), redis.WithRegistry("registry-"+event), redis.WithTimeout(time.Hour))
	require.NoError(t, err)
	c := t.Context()
	check := func(user string) line.VisitorState {
		t.Helper()
		_, out, err := store.Check(c, event, line.KnownState{}, []line.PlaceClaim{{UserID: user, Join: true}})
		require.NoError(t, err)
		return out[0].State
	}
	st, err := store.Open(c, event, line.KnownState{})
	require.NoError(t, err)
	_, err = store.ApplySettings(c, event, line.KnownState{}, line.Settings{}, st.Now)
	require.NoError(t, err)
	require.Equal(t, line.Inside, check("a"))
	_, ended, err := store.Revoke(c, event, line.KnownState{}, "a")
	require.NoError(t, err)
	require.True(t, ended)
	require.Equal(t, line.Inside, check("b"))
	_, err = store.Block(c, event, line.KnownState{}, []string{"b"})
	require.NoError(t, err)
	require.Equal(t, line.Blocked, check("b"))
	st, err = store.Peek(c, event, line.KnownState{})
	require.NoError(t, err)
	require.Zero(t, st.Active)
	st, err = store.ApplySettings(c, event, line.KnownState{}, line.Settings{Paused: true}, st.Now)
	require.NoError(t, err)
	require.Equal(t, []line.PauseReason{line.PausedByOperator}, st.Pauses())
	require.Equal(t, line.Waiting, check("c"))
}
