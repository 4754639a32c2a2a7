package redis_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// joinThreeWaiters makes three users wait with the positions 100 to 102 of the round.
func (f *fixture) joinThreeWaiters() {
	f.t.Helper()
	for i, user := range []string{"x", "y", "z"} {
		require.Equal(f.t, line.Waiting, f.joinAt(user, int64(100+i)).State)
	}
}

// requireBehindAll checks that a user who joins with this position waits behind all others.
func (f *fixture) requireBehindAll(user string, position int64) {
	f.t.Helper()
	f.advance(time.Second)
	waiting := f.peek().Waiting
	got := f.joinAt(user, position)
	require.Equal(f.t, line.Waiting, got.State)
	require.Equal(f.t, []int64{f.clock().UnixMicro(), waiting}, []int64{got.Score, got.Ahead}, "behind all who wait")
}

// However a user's first place in a round has ended, further positions of that round put the user
// behind all who wait.
func TestUserIsEarlyOncePerRound(t *testing.T) {
	inside := func(f *fixture) line.ClaimOutcome {
		in := f.joinAt("m", 10)
		require.Equal(f.t, line.Inside, in.State)
		f.joinThreeWaiters()
		f.advance(time.Second)
		return in
	}
	full := func(f *fixture) (ticket *line.Ticket) {
		f.join("in")
		ticket = f.ticket(f.joinAt("m", 10))
		f.joinThreeWaiters()
		f.advance(time.Second)
		return ticket
	}
	for name, end := range map[string]func(f *fixture){
		"left or bought": func(f *fixture) { require.True(f.t, f.release("m", inside(f).SlotID)) },
		"expired":        func(f *fixture) { inside(f); f.advance(600 * time.Second) },
		"revoked":        func(f *fixture) { inside(f); require.True(f.t, f.revoke("m")) },
		"blocked inside, and unblocked": func(f *fixture) {
			inside(f)
			f.block("m")
			f.apply(line.Settings{Threshold: ptr(1)})
		},
		"blocked while waiting, and unblocked": func(f *fixture) {
			full(f)
			f.block("m")
			f.apply(line.Settings{Threshold: ptr(1)})
		},
		"blocked while parked, and unblocked": func(f *fixture) {
			full(f)
			f.live(30*time.Second, "in", "x", "y", "z")
			f.apply(line.Settings{Threshold: ptr(2)})
			f.live(2*time.Second, "in", "x", "y", "z")
			require.Equal(f.t, []string{"m"}, f.set("parked"))
			f.block("m")
			f.apply(line.Settings{Threshold: ptr(2)})
		},
		"left while waiting": func(f *fixture) { full(f); require.True(f.t, f.release("m", "")) },
		"stayed away": func(f *fixture) {
			full(f)
			f.apply(line.Settings{Threshold: ptr(0)})
			f.liveBy(5*time.Second, 605*time.Second, "x", "y", "z")
			f.clean()
			require.Equal(f.t, []string{"m"}, f.set("parked"))
			f.liveBy(5*time.Second, 3600*time.Second, "x", "y", "z")
			f.clean()
			require.Empty(f.t, f.set("parked"))
		},
		"admitted by a tick, and bought": func(f *fixture) {
			full(f)
			f.apply(line.Settings{Threshold: ptr(2)})
			f.live(time.Second, "in", "m", "x", "y", "z")
			in := f.status("m")
			require.Equal(f.t, line.Inside, in.State)
			f.apply(line.Settings{Threshold: ptr(1)})
			require.True(f.t, f.release("m", in.SlotID))
		},
		"slot restored after a loss": func(f *fixture) {
			entry := f.entry(inside(f))
			f.wipe()
			in := f.claim(line.PlaceClaim{UserID: "m", Entry: entry})
			require.Equal(f.t, line.Inside, in.State)
			f.join("w")
			require.True(f.t, f.release("m", in.SlotID))
		},
		"slot revoked after its loss": func(f *fixture) {
			inside(f)
			f.wipe()
			f.join("w")
			require.False(f.t, f.revoke("m"))
		},
		"place restored after a loss": func(f *fixture) {
			ticket := full(f)
			f.wipe()
			require.Equal(f.t, f.round+10, f.claim(line.PlaceClaim{UserID: "m", Ticket: ticket}).Score)
			f.join("w")
			require.True(f.t, f.release("m", ""))
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			end(f)
			f.requireBehindAll("m", 11)
			require.True(t, f.release("m", ""))
			f.requireBehindAll("m", 11)
			require.True(t, f.release("m", ""))
			f.requireBehindAll("m", 12)
		})
	}
}

// Before admission, a user who tries other positions can return to the place of the first one.
func TestFirstPositionKeepsItsScore(t *testing.T) {
	f := setup(t, 0)
	first := f.joinAt("m", 10)
	f.joinThreeWaiters()
	require.True(t, f.release("m", ""))
	for _, other := range []int64{5, 11, 5} {
		f.requireBehindAll("m", other)
		require.True(t, f.release("m", ""))
	}
	require.Equal(t, first.Score, f.joinAt("m", 10).Score)
	require.True(t, f.release("m", ""))
	f.requireBehindAll("m", 11)
	f.apply(line.Settings{Threshold: ptr(1000)})
	f.live(time.Second, "x", "y", "z", "m")
	require.True(t, f.release("m", f.status("m").SlotID))
	f.apply(line.Settings{Threshold: ptr(0)})
	f.join("w")
	f.requireBehindAll("m", 10)
}

// Two positions of one user in one call give one place.
func TestPositionsOfTwoTabs(t *testing.T) {
	f := setup(t, 0)
	claim := func(position int64) line.PlaceClaim {
		return line.PlaceClaim{UserID: "m", Join: true, Tier1: line.Tier1{Required: true, Round: f.round, Position: position}}
	}
	s, out, err := f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{claim(10), claim(5)})
	f.observe(s, err)
	require.Equal(t, []int64{f.round + 10, f.round + 10}, []int64{out[0].Score, out[1].Score})
	require.True(t, f.release("m", ""))
	f.join("w")
	f.requireBehindAll("m", 5)
}

// A turn does not affect positions of later rounds. One without a position affects no round.
func TestOtherTurnsLeaveThePosition(t *testing.T) {
	for name, turn := range map[string]func(f *fixture) line.ClaimOutcome{
		"of an earlier round": func(f *fixture) line.ClaimOutcome {
			in := f.joinAt("m", 10)
			f.round += 1e9
			return in
		},
		"by arrival":                  func(f *fixture) line.ClaimOutcome { return f.join("m") },
		"by arrival during the round": func(f *fixture) line.ClaimOutcome { f.joinAt("x", 500); return f.join("m") },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 2)
			in := turn(f)
			require.True(t, f.release("m", in.SlotID))
			f.apply(line.Settings{Threshold: ptr(0)})
			f.advance(time.Second)
			require.Equal(t, f.round+100, f.joinAt("m", 100).Score)
		})
	}
}

// A position can be used for 24 hours. The line stores who had a turn for that time, and hardly
// longer, so that it does not store all users of a long sale.
func TestTurnsAreKeptForADay(t *testing.T) {
	f := setup(t, 1)
	turn := func(user string, position int64) {
		t.Helper()
		in := f.joinAt(user, position)
		require.Equal(t, line.Inside, in.State)
		require.True(t, f.release(user, in.SlotID))
	}
	turns := func() (users [][]string) {
		for _, name := range []string{"turns", "turns-before"} {
			known, err := f.client.HKeys(f.ctx(), f.key(name)).Result()
			require.NoError(t, err)
			slices.Sort(known)
			users = append(users, known)
		}
		return users
	}
	turn("a", 1)
	f.advance(23 * time.Hour)
	turn("b", 3)
	f.advance(2 * time.Hour)
	f.tick()
	turn("c", 5)
	for _, name := range []string{"turns", "turns-before"} {
		ttl, err := f.client.PTTL(f.ctx(), f.key(name)).Result()
		require.NoError(t, err)
		require.InDelta(t, float64(72*time.Hour), float64(ttl), float64(10*time.Minute), name)
	}
	f.join("in")
	f.requireBehindAll("b", 4)
	f.requireBehindAll("c", 6)
	f.advance(23 * time.Hour)
	f.tick()
	require.Equal(t, [][]string{{"c"}, {"a", "b"}}, turns())
	f.advance(2 * time.Hour)
	f.tick()
	require.Equal(t, [][]string{{}, {"c"}}, turns())
	f.advance(24 * time.Hour)
	f.tick()
	require.Equal(t, [][]string{{}, {}}, turns())
}

// After a round the waiters keep their order, and others join behind them. No position is needed
// any more, so nobody is refused because another user has used the same position.
func TestPositionAfterItsRound(t *testing.T) {
	f := setup(t, 0)
	f.joinAt("during", 10)
	join := func(user string, position int64) line.ClaimOutcome {
		f.advance(time.Second)
		return f.claim(line.PlaceClaim{UserID: user, Join: true, Tier1: line.Tier1{Round: f.round, Position: position}})
	}
	f.join("newcomer")
	require.Equal(t, f.round+20, join("waited", 20).Score)
	require.Equal(t, f.clock().UnixMicro()+1e6, join("other account", 20).Score)
	f.join("late")
	require.Equal(t, f.round+5, join("polls rarely", 5).Score)
	require.Equal(t, []string{"polls rarely", "during", "waited", "newcomer", "other account", "late"}, f.set("queue"))
}

// Even if tier 1's clock is ahead, a user who had a turn and joins again overtakes nobody.
func TestArrivalIsBehindPositionsOfAClockAhead(t *testing.T) {
	f := setup(t, 1)
	f.round = f.clock().Add(time.Minute).UnixMicro()
	in := f.joinAt("m", 10)
	f.joinThreeWaiters()
	require.True(t, f.release("m", in.SlotID))
	again := f.joinAt("m", 11)
	require.Equal(t, []int64{f.round + 103, 3}, []int64{again.Score, again.Ahead})
}
