package redis_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

func TestImmediateEntry(t *testing.T) {
	f := setup(t, 2)
	a := f.join("a")
	require.Equal(t, line.Inside, a.State)
	require.True(t, a.Claimed)
	require.Equal(t, f.clock().Add(600*time.Second).UnixMilli(), a.End)
	id, err := uuid.Parse(a.SlotID)
	require.NoError(t, err)
	require.Equal(t, uuid.Version(7), id.Version())
	require.Equal(t, uuid.RFC4122, id.Variant())
	sec, nsec := id.Time().UnixTime()
	require.Equal(t, f.clock().UnixMilli(), time.Unix(sec, nsec).UnixMilli(), "the slot's id tells Redis's time")

	again := f.join("a")
	require.Equal(t, a.SlotID, again.SlotID, "several tabs share one slot")
	require.False(t, again.Claimed)

	require.Equal(t, line.Inside, f.join("b").State)
	c, d := f.join("c"), f.join("d")
	require.Equal(t, line.Waiting, c.State, "the threshold is reached")
	require.Equal(t, int64(0), c.Ahead)
	require.Equal(t, int64(1), d.Ahead)

	require.True(t, f.release("a", a.SlotID))
	f.advance(time.Millisecond)
	require.Equal(t, line.Waiting, f.join("e").State, "c and d are before e")
	st := f.peek()
	require.Equal(t, []int64{3, 1, 2}, []int64{st.Waiting, st.Active, st.Admitted})
}

func TestNoEntryWhileLineDoesNotAdmit(t *testing.T) {
	for name, prepare := range map[string]func(f *fixture){
		"paused":          func(f *fixture) { f.apply(line.Settings{Paused: true}) },
		"settings unread": func(f *fixture) { f.wipe(); f.known = line.KnownState{}; f.open() },
		"recovering":      func(f *fixture) { f.failover() },
		"threshold 0":     func(f *fixture) { var none int64; f.apply(line.Settings{Threshold: &none}) },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 10)
			prepare(f)
			f.advance(time.Second)
			require.Equal(t, line.Waiting, f.join("a").State)
			require.Zero(t, f.tick().Admitted)
		})
	}
}

func TestTier1OrderMergesWithArrivals(t *testing.T) {
	f := setup(t, 0)
	f.round = f.clock().Add(10 * time.Second).UnixMicro() // the start of the round is 10 s from now
	f.join("early")
	f.advance(20 * time.Second)
	f.joinAt("p9", 9)
	f.advance(time.Second)
	p5 := f.joinAt("p5", 5)
	require.Equal(t, f.round+5, p5.Score)
	require.Equal(t, int64(1), p5.Ahead)
	f.advance(time.Second)
	f.join("late")
	require.Equal(t, []string{"early", "p5", "p9", "late"}, f.set("queue"))

	f.advance(time.Second)
	require.Equal(t, f.round+9, f.joinAt("p9", 2).Score, "a score never changes after the join")
	require.Equal(t, int64(2), f.peek().Arrived)
}

func TestPositionBelongsToItsFirstUser(t *testing.T) {
	f := setup(t, 0)
	require.Equal(t, line.Waiting, f.joinAt("a", 7).State)
	require.Equal(t, line.PassTaken, f.joinAt("b", 7).State)
	require.Equal(t, []string{"a"}, f.set("queue"))
	require.True(t, f.release("a", ""))
	require.Equal(t, f.round+7, f.joinAt("a", 7).Score, "its user may come again with it while nobody behind was admitted")
	ttl, err := f.client.PTTL(f.ctx(), f.key("t1:"+itoa(f.round)+":0")).Result()
	require.NoError(t, err)
	require.Greater(t, ttl, 23*time.Hour)

	f.round += 1_000_000_000
	require.Equal(t, line.Waiting, f.joinAt("c", 7).State, "another round has positions of its own")
	require.Equal(t, int64(1), f.peek().Arrived, "arrivals are counted by round")
}

func TestArrivalsOfTwoRoundsInOneCall(t *testing.T) {
	f := setup(t, 0)
	claim := func(user string, round int64) line.PlaceClaim {
		return line.PlaceClaim{UserID: user, Join: true, Tier1: line.Tier1{Round: round, Position: 1}}
	}
	s, _, err := f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{claim("a", f.round), claim("b", f.round+1e9), claim("c", f.round)})
	f.observe(s, err)
	require.Equal(t, int64(1), f.peek().Arrived, "those of the latest only")
}

func TestParkedUserCanLeave(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("gone")
	f.live(16*time.Second, "in")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"gone"}, f.set("parked"))
	require.True(t, f.release("gone", ""))
	require.Empty(t, f.set("parked"))
	require.Empty(t, f.set("parked-seen"))
	require.Equal(t, line.NotInLine, f.status("gone").State)
}

func TestArrivalOfEarlierRoundIsNotCounted(t *testing.T) {
	f := setup(t, 0)
	f.joinAt("a", 1)
	f.round += 1e9
	f.joinAt("b", 1)
	f.round -= 1e9
	f.joinAt("c", 2)
	require.Equal(t, int64(1), f.peek().Arrived)
}

func TestLowestScoreEntersImmediately(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.joinAt("p9", 9)
	f.release("in", in.SlotID)
	require.Equal(t, line.Waiting, f.joinAt("p10", 10).State)
	require.Equal(t, line.Inside, f.joinAt("p5", 5).State, "the slot would be theirs at the next tick anyway")
}

// Each claim of a call sees what the claims before it have changed.
func TestOrderWithinACall(t *testing.T) {
	f := setup(t, 1)
	f.join("h")
	f.failover()
	// The slot of the previous epoch is over, and no tick has removed it yet.
	f.advance(601 * time.Second)
	f.apply(line.Settings{Threshold: ptr(1)})
	s, out, err := f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{{UserID: "n", Join: true}, {UserID: "h"}, {UserID: "m", Join: true}})
	f.observe(s, err)
	require.Equal(t, []line.VisitorState{line.Waiting, line.NotInLine, line.Waiting}, []line.VisitorState{out[0].State, out[1].State, out[2].State})
	require.Equal(t, []string{"n", "m"}, f.set("queue"))
}

func TestPositionPagesAreSeparate(t *testing.T) {
	f := setup(t, 0)
	positions := []int64{1, 99, 100, 101, 199, 200, 1_000_001, 9_000_000_001}
	for _, p := range positions {
		require.Equal(t, f.round+p, f.joinAt("u-"+itoa(p), p).Score)
	}
	for _, p := range positions {
		require.Equal(t, line.PassTaken, f.joinAt("other", p).State, "position %d", p)
	}
}

func TestPositionGivesOneTurn(t *testing.T) {
	for name, end := range map[string]func(f *fixture, slot string){
		"left or bought": func(f *fixture, slot string) { require.True(f.t, f.release("first", slot)) },
		// The slot is over, before the next tick.
		"expired": func(f *fixture, _ string) { f.advance(600 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			in := f.joinAt("first", 1)
			require.Equal(t, line.Inside, in.State)
			f.joinAt("second", 2)
			f.join("third")
			f.advance(time.Millisecond)
			end(f, in.SlotID)
			back := f.joinAt("first", 1)
			require.Equal(t, line.Waiting, back.State, "a pass that was in front once is not in front for ever")
			require.Equal(t, int64(2), back.Ahead, "who wants more queues again")
			require.Equal(t, back.Score, f.joinAt("first", 1).Score, "the new place stays")
			f.poll("second", "third", "first")
			f.tick()
			require.Equal(t, line.Inside, f.status("second").State)
		})
	}
}

func TestPositionIsRequiredWhileRoomIsActive(t *testing.T) {
	f := setup(t, 1)
	need := func(user string) line.ClaimOutcome {
		return f.claim(line.PlaceClaim{UserID: user, Join: true, Tier1: line.Tier1{Required: true}})
	}
	require.Equal(t, line.PassMissing, need("a").State, "neither into active")
	inside := f.join("in")
	require.Equal(t, line.PassMissing, need("a").State, "nor into the queue")
	f.join("waits")
	require.Equal(t, line.Waiting, need("waits").State, "who waits needs none")
	require.Equal(t, line.Inside, need("in").State, "who is inside needs none")
	f.live(20*time.Second, "in")
	require.True(t, f.release("in", inside.SlotID))
	f.tick()
	require.Equal(t, []string{"waits"}, f.set("parked"))
	require.Equal(t, line.Inside, need("waits").State, "who was parked needs none")
}

func TestStatusEnqueuesNobody(t *testing.T) {
	f := unopened(t)
	require.Equal(t, line.NotInLine, f.status("a").State)
	require.Equal(t, line.NotInLine, f.claim(line.PlaceClaim{UserID: "a", Join: true}).State, "nobody knows that there is such an event")
	require.False(t, f.release("a", ""))
	require.False(t, f.hold("a", "x", f.clock().Add(time.Minute)))
	f.tick()
	f.clean()
	require.False(t, f.peek().Exists())
	n, err := f.client.Exists(f.ctx(), f.key("line"), f.key("queue"), f.key("threshold")).Result()
	require.NoError(t, err)
	require.Zero(t, n)

	f.open()
	f.apply(line.Settings{})
	require.Equal(t, line.NotInLine, f.status("a").State)
	require.Empty(t, f.set("queue"))
}

func TestManyClaimsInOneCall(t *testing.T) {
	f := setup(t, 2)
	f.joinAt("taken", 3)
	s, out, err := f.store.Check(f.ctx(), f.event, f.known, []line.PlaceClaim{
		{UserID: "a", Join: true},
		{UserID: "b", Join: true, Tier1: line.Tier1{Required: true, Round: f.round, Position: 3}},
		{UserID: "c", Join: true, Tier1: line.Tier1{Required: true, Round: f.round + 1e9, Position: 4}},
		{UserID: "d"},
		{UserID: "a", Join: true},
		{UserID: "e", Join: true, Tier1: line.Tier1{Required: true}},
	})
	require.NoError(t, err)
	require.Equal(t, []line.VisitorState{line.Inside, line.PassTaken, line.Waiting, line.NotInLine, line.Inside, line.PassMissing},
		[]line.VisitorState{out[0].State, out[1].State, out[2].State, out[3].State, out[4].State, out[5].State})
	require.Equal(t, out[0].SlotID, out[4].SlotID)
	require.Equal(t, int64(2), s.Active)
}

func TestBlockedUsers(t *testing.T) {
	f := setup(t, 1)
	in := f.join("in")
	f.join("gone")
	f.live(16*time.Second, "in")
	f.release("in", in.SlotID)
	f.tick()
	require.Equal(t, []string{"gone"}, f.set("parked"))
	f.join("in")
	f.join("w")
	f.advance(time.Second)
	f.apply(line.Settings{Blocked: []string{"in", "w", "gone"}})
	require.Equal(t, line.Blocked, f.join("in").State)
	require.Equal(t, line.Blocked, f.status("w").State)
	for _, name := range []string{"active", "active-seen", "queue", "seen", "parked", "parked-seen"} {
		require.Empty(t, f.set(name), name)
	}
	f.advance(time.Second)
	f.apply(line.Settings{Blocked: []string{"w"}})
	require.Equal(t, line.Inside, f.join("in").State)
}

func TestLaterSettingsReadWins(t *testing.T) {
	f := setup(t, 5)
	early, late := f.clock().Add(time.Second).UnixMilli(), f.clock().Add(2*time.Second).UnixMilli()
	f.advance(3 * time.Second)
	seven, nine := int64(7), int64(9)
	f.observe(f.store.ApplySettings(f.ctx(), f.event, f.known, line.Settings{Threshold: &nine, Slot: time.Minute}, late))
	f.observe(f.store.ApplySettings(f.ctx(), f.event, f.known, line.Settings{Threshold: &seven}, early))
	st := f.peek()
	require.Equal(t, int64(9), st.Threshold)
	require.Equal(t, time.Minute.Milliseconds(), st.SlotMS)
	require.Equal(t, f.clock().Add(time.Minute).UnixMilli(), f.join("a").End, "a slot is as long as the event says")
}

func TestSettingsReturnToDefaults(t *testing.T) {
	f := setup(t, 5)
	f.apply(line.Settings{Threshold: ptr(7), Slot: time.Minute, Paused: true, ClosesAt: f.clock().Add(time.Hour)})
	f.apply(line.Settings{})
	st := f.peek()
	require.Equal(t, []int64{1000, 600_000, 0}, []int64{st.Threshold, st.SlotMS, st.ClosesAt})
	require.False(t, st.Paused)
}

func TestPositionRestoresPlaceOnce(t *testing.T) {
	f := setup(t, 1)
	first := f.joinAt("first", 1)
	require.Equal(t, line.Inside, first.State)
	f.joinAt("second", 2)
	require.True(t, f.release("first", first.SlotID))
	f.advance(time.Second)
	again := f.joinAt("first", 1)
	require.Equal(t, line.Waiting, again.State)
	require.Equal(t, int64(1), again.Ahead, "behind who waits: the turn was had")
	require.Equal(t, f.clock().UnixMicro(), again.Score)
}
