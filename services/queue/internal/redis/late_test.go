package redis_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/redis/redistest"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/redis/admissiontest"
)

// rush is a full line. Honest visitors poll each second. Attackers ahead of them poll each minute
// and never claim a slot. One honest tab has a browser that lets it poll once a minute.
type rush struct {
	*fixture

	limit     int
	honest    []string
	inside    map[string]int // by honest visitor, the second in which the slot began
	slots     map[string]string
	attackers []string
	slowIn    int // the second in which the slow tab was admitted; 0 = not yet
	// idle is the number of unused slots while visitors waited, summed over the measured seconds.
	idle    int
	seconds int
}

func newRush(t *testing.T, limit, attackers int) *rush {
	t.Helper()
	r := &rush{fixture: setup(t, int64(limit)), limit: limit, inside: map[string]int{}, slots: map[string]string{}}
	for i := range limit + limit/2 {
		r.honest = append(r.honest, fmt.Sprintf("h-%03d", i))
	}
	r.ask(0, r.honest[:limit]...) // now all slots are in use
	for i := range attackers {
		r.attackers = append(r.attackers, fmt.Sprintf("x-%03d", i))
	}
	r.ask(0, r.attackers...)
	r.ask(0, "slow")
	return r
}

// ask runs the check for users, who join unless they have a place, and records who is inside.
func (r *rush) ask(second int, users ...string) {
	r.t.Helper()
	for page := range slices.Chunk(users, 64) {
		claims := make([]line.PlaceClaim, len(page))
		for i, u := range page {
			claims[i] = line.PlaceClaim{UserID: u, Join: true}
		}
		s, out, err := r.store.Check(r.ctx(), r.event, r.known, claims)
		r.observe(s, err)
		for i, o := range out {
			u := page[i]
			switch _, in := r.inside[u]; {
			case o.State != line.Inside || in:
			case u == "slow":
				r.slowIn = second
			case u[0] == 'h':
				r.inside[u], r.slots[u] = second, o.SlotID
			}
		}
		r.advance(time.Millisecond)
	}
}

// play simulates one second. Honest visitors stay inside for a minute, and then join again.
func (r *rush) play(second int) {
	r.t.Helper()
	r.tick()
	var due []string
	for i, u := range r.honest {
		began, in := r.inside[u]
		if in && second >= began+60+i%7 {
			r.release(u, r.slots[u])
			delete(r.inside, u)
		}
		due = append(due, u)
	}
	active := r.set("active")
	for i, u := range r.attackers {
		if i%60 == second%60 && !slices.Contains(active, u) {
			due = append(due, u)
		}
	}
	if second%60 == 37 && r.slowIn == 0 {
		due = append(due, "slow")
	}
	r.ask(second, due...)
	if second > 120 { // by then it is known who polls slowly
		r.count()
	}
	at := r.clock()
	r.advance(at.Truncate(time.Second).Add(time.Second).Sub(at))
}

func (r *rush) count() {
	r.t.Helper()
	r.seconds++
	r.idle += len(r.set("unclaimed"))
	if len(r.set("queue")) > 0 {
		r.idle += max(0, r.limit-len(r.set("active")))
	}
}

func TestSlowTabGetsInAndFewSlotsAreIdle(t *testing.T) {
	for i, tc := range []struct{ limit, attackers, seconds int }{{20, 80, 700}, {100, 500, 400}} {
		t.Run(fmt.Sprintf("threshold %d", tc.limit), func(t *testing.T) {
			redistest.SkipShare(t, i)
			r := newRush(t, tc.limit, tc.attackers)
			for second := 1; second <= tc.seconds; second++ {
				r.play(second)
			}
			require.Less(t, float64(r.idle)/float64(r.seconds*r.limit), 0.05)
			require.Positive(t, r.slowIn, "the slow tab is admitted")
			require.Empty(t, admissiontest.FindOvertaken(r.admissions()))
		})
	}
}

// lineWithLateVisitor returns a line of one slot, held by "in". "a" was parked, has returned and
// waits.
func lineWithLateVisitor(t *testing.T, others ...string) (*fixture, line.ClaimOutcome) {
	t.Helper()
	f := setup(t, 1)
	in := f.join("in")
	f.join("a")
	for _, u := range others {
		f.advance(time.Millisecond)
		f.join(u)
	}
	f.apply(line.Settings{Threshold: ptr(2)})
	f.live(20*time.Second, append(others, "in")...)
	f.apply(line.Settings{Threshold: ptr(1)})
	require.Equal(t, []string{"a"}, f.set("parked"))
	return f, in
}

func TestSlotIsKeptForLateVisitor(t *testing.T) {
	f, in := lineWithLateVisitor(t)
	require.Equal(t, line.Waiting, f.status("a").State)
	f.join("b")
	f.live(30*time.Second, "in", "b")
	f.release("in", in.SlotID)
	f.live(39*time.Second, "b")
	require.Equal(t, [][]string{{"a"}, {"b"}, {}}, [][]string{f.set("parked"), f.set("queue"), f.set("active")}, "69 s after the last contact")
	require.Equal(t, line.Inside, f.status("a").State)
	require.Empty(t, f.set("late"))
}

// The only free slot is kept for "a", so a newcomer does not get it, although nobody else waits.
func TestNewcomerDoesNotTakeKeptSlot(t *testing.T) {
	f, in := lineWithLateVisitor(t)
	f.status("a")
	f.release("in", in.SlotID)
	f.live(time.Second)
	require.Equal(t, []string{"a"}, f.set("parked"), "the slot is kept")
	require.Equal(t, line.Waiting, f.join("b").State)
	require.Equal(t, line.Inside, f.status("a").State)
	require.Equal(t, []string{"a"}, f.set("active"))
}

// A tab that may poll once a minute learns too late of a slot when a paused sale resumes, even if
// it returned while nobody was admitted.
func TestReturnDuringPausedSaleIsLate(t *testing.T) {
	for _, status := range []line.SaleStatus{line.SoldOut, line.SalePaused} {
		t.Run(status.String(), func(t *testing.T) {
			f, in := lineWithLateVisitor(t)
			f.setSale(status, f.clock().Add(-time.Hour))
			require.Equal(t, line.Waiting, f.status("a").State)
			f.join("b")
			require.True(t, f.release("in", in.SlotID))
			f.live(30*time.Second, "b")
			f.setSale(line.OnSale, f.clock().Add(-time.Hour))
			f.live(30*time.Second, "b")
			require.Equal(t, [][]string{{"a"}, {"b"}}, [][]string{f.set("parked"), f.set("queue")})
			require.Equal(t, line.Inside, f.status("a").State)
		})
	}
}

func TestKeptSlotExpires(t *testing.T) {
	f, in := lineWithLateVisitor(t)
	f.status("a")
	f.join("b")
	f.release("in", in.SlotID)
	f.live(69*time.Second, "b")
	require.Empty(t, f.set("active"))
	f.live(2*time.Second, "b")
	require.Equal(t, []string{"b"}, f.set("active"), "70 s after the last contact")
	require.Equal(t, []string{"a"}, f.set("parked"), "whose place is kept")
}

func TestNoSlotIsKeptForGoneVisitor(t *testing.T) {
	f, in := lineWithLateVisitor(t)
	f.join("b")
	f.release("in", in.SlotID)
	f.live(time.Second, "b")
	require.Equal(t, []string{"b"}, f.set("active"), "nobody came back")
}

func TestKeptSlotsAreBounded(t *testing.T) {
	f := setup(t, 21) // at most two of the slots are kept
	slots := map[string]string{}
	for _, u := range f.joinAll("in", 21) {
		slots[u] = f.status(u).SlotID
	}
	late := f.crowd("late", 5)
	here := f.crowd("here", 5)
	alive := append(slices.Collect(maps.Keys(slots)), here...)
	f.live(16*time.Second, alive...)
	f.apply(line.Settings{Threshold: ptr(22)})
	f.live(time.Second, alive...)
	f.apply(line.Settings{Threshold: ptr(21)})
	f.poll(late...)
	for _, u := range []string{"in-000", "in-001", "in-002", "in-003"} {
		f.release(u, slots[u])
	}
	did := f.tick()
	require.Equal(t, line.AdmissionResult{Parked: 5, Admitted: 1, Kept: 2}, did, "22 − 1 − 4 inside, two kept")
	require.Equal(t, line.Inside, f.status("late-4").State, "whoever comes first")
	require.Equal(t, line.Inside, f.status("late-3").State)
	require.Equal(t, line.Waiting, f.status("late-2").State)
}

func TestLateEntryIsRemoved(t *testing.T) {
	for name, end := range map[string]func(f *fixture){
		"left":    func(f *fixture) { f.release("a", "") },
		"blocked": func(f *fixture) { f.advance(time.Second); f.apply(line.Settings{Blocked: []string{"a"}}) },
		"entered": func(f *fixture) { f.apply(line.Settings{Threshold: ptr(2)}); f.live(time.Second, "in"); f.status("a") },
		"parked for too long": func(f *fixture) {
			f.liveBy(5*time.Second, 4300*time.Second, "in")
			f.clean()
			f.liveBy(5*time.Second, 3700*time.Second, "in")
			f.clean()
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := lineWithLateVisitor(t)
			f.status("a")
			require.Equal(t, []string{"a"}, f.set("late"))
			end(f)
			require.Empty(t, f.set("late"))
		})
	}
}

// If all waiters are late, as after an outage that was not detected, ticks admit most of them in
// order.
func TestManyLateWaitersAreAdmittedInOrder(t *testing.T) {
	f := setup(t, 0)
	users := f.joinAll("u", 400)
	f.live(20*time.Second, "nobody")
	contacts := make([]goredis.Z, len(users))
	for i, u := range users {
		contacts[i] = goredis.Z{Member: u}
	}
	require.NoError(t, f.client.ZAdd(f.ctx(), f.key("late"), contacts...).Err())
	f.poll(users...)
	f.apply(line.Settings{Threshold: ptr(200)})
	did := f.tick()
	require.Equal(t, int64(90), did.Admitted, "of 100 in a second, ten are kept for those passed over")
	require.Equal(t, users[100:190], f.set("active"))
	require.Equal(t, users[:100], f.set("parked"))
}
