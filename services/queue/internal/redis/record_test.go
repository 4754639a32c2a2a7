package redis_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// Tests check the order of admissions by the stream. So a visitor who was absent while others were
// admitted must not be recorded as present.
func TestRecordHasPresence(t *testing.T) {
	for name, back := range map[string]func(f *fixture, slot string){
		"entered when a slot was kept": func(f *fixture, slot string) {
			require.Equal(f.t, line.Waiting, f.status("away").State)
			f.release("b", slot)
			f.live(time.Second, "away")
			require.Equal(f.t, line.Inside, f.status("away").State)
		},
		"entered at once": func(f *fixture, slot string) {
			f.release("b", slot)
			require.Equal(f.t, line.Inside, f.status("away").State)
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, 1)
			in := f.join("in")
			f.advance(time.Millisecond)
			away := f.join("away")
			f.advance(time.Millisecond)
			f.join("b")
			f.live(16*time.Second, "in", "b")
			f.release("in", in.SlotID)
			f.live(time.Second, "b") // parks "away" and admits "b"
			require.Equal(t, []string{"away"}, f.set("parked"))
			require.Equal(t, away.Score/1000, f.score("parked-seen", "away"), "parked since the last contact")
			back(f, f.status("b").SlotID) // this is in the same millisecond
			all := f.admissions()
			require.Len(t, all, 3)
			b, last := all[1], all[2]
			require.Equal(t, []string{"b", "away"}, []string{b.User, last.User})
			require.Equal(t, b.Score/1000, b.Since, "present since the arrival: nobody behind had been admitted then")
			require.Greater(t, last.Since, b.At)
			require.Less(t, last.Score, b.Score)
			n, err := f.client.HLen(f.ctx(), f.key("since")).Result()
			require.NoError(t, err)
			require.Zero(t, n)
		})
	}
}

// A page of a tick is one record. Records with many later admissions are dropped.
func TestRecordsOfManyAdmissionsAreDropped(t *testing.T) {
	const many = 100_000
	f := setup(t, 0)
	users := f.crowd("u", 12)
	next := func(threshold int64) []string {
		t.Helper()
		f.apply(line.Settings{Threshold: &threshold})
		f.live(time.Second, users...)
		time.Sleep(2 * time.Millisecond) // the ids of records have the time of Redis
		var names []string
		for _, a := range f.admissions() {
			names = append(names, a.User)
		}
		return names
	}
	later := func() { require.NoError(t, f.client.HIncrBy(f.ctx(), f.key("line"), "admitted", many).Err()) }
	require.Equal(t, users[:3], next(3))
	n, err := f.client.XLen(f.ctx(), f.key("admitted")).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	later()
	require.Equal(t, users[:5], next(5), "they are the last of 100,000")
	require.Equal(t, users[:6], next(6))
	later()
	require.Equal(t, users[3:8], next(8))
	require.Equal(t, users[3:9], next(9))
	later()
	require.Equal(t, users[6:10], next(10))
}

// Each decision increments rev, and nothing else does. So if Redis returns with a lower rev, it has
// lost a decision.
func TestEveryDecisionIncrementsRev(t *testing.T) {
	f := setup(t, 1)
	rev := f.known.Revision
	decides := func(what string, act func()) {
		t.Helper()
		act()
		require.Greater(t, f.peek().Revision, rev, what)
		rev = f.known.Revision
	}
	queries := func(what string, act func()) {
		t.Helper()
		act()
		require.Equal(t, rev, f.peek().Revision, what)
	}
	var in line.ClaimOutcome
	decides("entry at once", func() { in = f.join("in") })
	decides("joining", func() { f.join("a") })
	queries("polls", func() { f.poll("in", "a"); f.join("a") })
	queries("a tick that changes nothing", func() { f.advance(time.Second); f.poll("in", "a"); f.tick() })
	decides("a hold", func() { f.hold("in", in.SlotID, f.clock().Add(time.Minute)) })
	decides("a slot's end", func() { f.release("in", in.SlotID) })
	queries("the same again", func() { f.release("in", in.SlotID) })
	decides("admission", func() { f.tick() })
	decides("claiming", func() { f.status("a") })
	decides("joining again", func() { f.join("b") })
	decides("parking", func() {
		f.live(16*time.Second, "a")
		rev = f.known.Revision
		f.apply(line.Settings{Threshold: ptr(2)})
		rev = f.known.Revision
		require.Equal(t, int64(1), f.tick().Parked)
	})
	decides("coming back", func() { require.Equal(t, line.Inside, f.status("b").State) })
	decides("absence", func() { f.live(122*time.Second, "b") })
	decides("settings", func() { f.apply(line.Settings{Threshold: ptr(1)}) })
	decides("joining behind", func() { f.join("c") })
	decides("leaving", func() { f.release("c", "") })
	decides("cleaning", func() {
		f.apply(line.Settings{Threshold: ptr(0)})
		f.join("d")
		f.live(601*time.Second, "b")
		rev = f.peek().Revision
		require.Positive(t, f.clean())
	})
}

func TestLeaveRemovesAllData(t *testing.T) {
	f := setup(t, 1)
	f.joinAt("p9", 9)
	f.joinAt("p5", 5) // someone behind was admitted: presence counts from now
	count := func() int64 {
		n, err := f.client.HLen(f.ctx(), f.key("since")).Result()
		require.NoError(t, err)
		return n
	}
	require.Equal(t, int64(1), count())
	require.True(t, f.release("p5", ""))
	require.Zero(t, count())
}
