package line_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

// countingStore counts the calls on lines as a whole.
type countingStore struct {
	line.Store

	ticks, sweeps, peeks atomic.Int64
}

func (c *countingStore) Admit(ctx context.Context, eventID string, m line.KnownState) (line.LineState, line.AdmissionResult, error) {
	c.ticks.Add(1)
	return c.Store.Admit(ctx, eventID, m)
}

func (c *countingStore) Clean(ctx context.Context, eventID string, m line.KnownState) (line.LineState, int64, bool, error) {
	c.sweeps.Add(1)
	return c.Store.Clean(ctx, eventID, m)
}

func (c *countingStore) Peek(ctx context.Context, eventID string, m line.KnownState) (line.LineState, error) {
	c.peeks.Add(1)
	return c.Store.Peek(ctx, eventID, m)
}

// replicas starts n replicas whose calls are counted together.
func (w *testEnv) replicas(n int) ([]*replica, *countingStore) {
	w.t.Helper()
	store := &countingStore{Store: w.store()}
	out := make([]*replica, n)
	for i := range out {
		out[i] = w.replicaOn(store)
	}
	return out, store
}

func (w *testEnv) tick(replicas ...*replica) {
	w.t.Helper()
	w.clock.Advance(time.Second)
	for _, r := range replicas {
		r.worker.Tick(w.t.Context())
	}
}

func TestOneReplicaTicksAndAllKnowTheLine(t *testing.T) {
	w := newTestEnv(t)
	all, store := w.replicas(3)
	for _, user := range []string{"in", "w1", "w2"} {
		require.NoError(t, all[0].check(t.Context(), w.event, user).Err)
	}
	w.tick(all...)
	store.ticks.Store(0)
	for range 10 {
		w.tick(all...)
	}
	require.Equal(t, int64(10), store.ticks.Load())

	store.peeks.Store(0)
	for _, r := range all {
		require.Equal(t, []int64{2, 1}, []int64{r.meter.figures.Waiting, r.meter.figures.Active}, "every replica exports the figures")
		require.Equal(t, line.StatusQueued, r.service.Status(t.Context(), requests(w.event, "w1"))[0].Place.Status)
	}
	require.Zero(t, store.peeks.Load(), "from memory")
	for _, r := range all {
		require.Equal(t, line.LineLoad{Waiting: 2, Active: 1}, w.load(r))
	}
}

func (w *testEnv) load(r *replica) line.LineLoad {
	w.t.Helper()
	load, err := r.service.ReadLoad(w.t.Context(), w.event)
	require.NoError(w.t, err)
	return load
}

// All replicas report the same load: tier 1 asks any, and takes a decrease for a loss of data.
func TestLoadDoesNotDependOnReplica(t *testing.T) {
	w := newTestEnv(t)
	a, b := w.replica(), w.replica()
	require.NoError(t, w.store().AddEvents(t.Context(), w.event))
	w.tick(a, b) // now both replicas know that there is no line
	for i, user := range []string{"in", "w1", "w2"} {
		require.NoError(t, a.check(t.Context(), w.event, user).Err)
		want := line.LineLoad{Waiting: int64(i), Active: 1}
		require.Equal(t, []line.LineLoad{want, want}, []line.LineLoad{w.load(a), w.load(b)})
	}
}

// Plans of a replica are a second apart, or a little more or less. Each ticks the lines in use.
func TestEveryPlanTicksLinesInUse(t *testing.T) {
	w := newTestEnv(t)
	all, store := w.replicas(1)
	require.NoError(t, all[0].check(t.Context(), w.event, "in").Err)
	w.tick(all...)
	store.ticks.Store(0)
	for range 5 {
		for _, ms := range []int64{1200, 800, 700, 1300} {
			w.clock.Advance(time.Duration(ms) * time.Millisecond)
			all[0].worker.Tick(t.Context())
		}
	}
	require.Equal(t, int64(20), store.ticks.Load())
}

// If a replica claims a tick and dies, admission is delayed by at most one tick.
func TestTickOfDeadReplicaIsTakenOver(t *testing.T) {
	w := newTestEnv(t)
	dies := &unreachable{Store: w.store()}
	a, b := w.replicaOn(dies), w.replica()
	require.NoError(t, a.check(t.Context(), w.event, "in").Err)
	require.NoError(t, a.check(t.Context(), w.event, "w").Err)
	w.tick(a, b)
	require.NoError(t, a.service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(t, w, "in")}))
	dies.err = errs.ErrUnavailable
	w.tick(a, b) // replica a claims the tick
	require.Zero(t, b.meter.admitted)
	w.tick(b)
	require.Equal(t, int64(1), b.meter.admitted)
}

// If calls on a line fail at one replica, the other replicas tick it.
func TestFailingLineIsLeftToOthers(t *testing.T) {
	w := newTestEnv(t)
	cut := &unreachable{Store: w.store()}
	a, b := w.replicaOn(cut), w.replica()
	require.NoError(t, a.check(t.Context(), w.event, "in").Err)
	require.NoError(t, a.check(t.Context(), w.event, "w").Err)
	w.tick(a, b)
	cut.err = errs.ErrUnavailable
	w.tick(a, b)
	require.NoError(t, b.service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(t, w, "in")}))
	w.tick(a, b) // replica a comes first, but claims nothing
	require.Equal(t, int64(1), b.meter.admitted)
	require.Equal(t, 2, a.meter.failures)
}

// A line without visitors is ticked about once a minute by all replicas together, and cleaned up
// once by each. All replicas learn of its first visitor at once, even if the replica that was
// called dies.
func TestIdleLineCostsLittleUntilSomebodyComes(t *testing.T) {
	w := newTestEnv(t)
	all, store := w.replicas(3)
	all[0].open(t, w.event)
	for range 150 { // a contact counts for a minute, and the mark as busy for another
		w.tick(all...)
	}
	store.ticks.Store(0)
	store.sweeps.Store(0)
	for range 180 {
		w.tick(all...)
		for _, r := range all {
			r.worker.CleanLines(t.Context())
		}
	}
	require.InDelta(t, 3, store.ticks.Load(), 1)
	require.Equal(t, int64(3), store.sweeps.Load())

	for _, user := range []string{"in", "w"} {
		require.NoError(t, all[0].check(t.Context(), w.event, user).Err)
	}
	require.NoError(t, all[0].service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(t, w, "in")}))
	w.tick(all[1:]...) // replica all[0] has died
	require.Equal(t, int64(1), all[1].meter.admitted)
	require.Equal(t, int64(1), all[2].meter.figures.Waiting+all[2].meter.figures.Active)
}

// brokenSchedule is a store whose schedule does not answer while broken is set.
type brokenSchedule struct {
	line.Store

	broken bool
}

func (b *brokenSchedule) ClaimTicks(ctx context.Context, r line.TickRequest) (line.TickPlan, error) {
	if b.broken {
		<-ctx.Done()
		return line.TickPlan{}, ctx.Err()
	}
	return b.Store.ClaimTicks(ctx, r)
}

// While the schedule does not answer, lines in use are ticked all the same.
func TestLinesInUseAreTickedWithoutSchedule(t *testing.T) {
	w := newTestEnv(t)
	store := &brokenSchedule{Store: w.store(), broken: true}
	a := w.replicaOn(store)
	require.NoError(t, a.check(t.Context(), w.event, "in").Err)
	require.NoError(t, a.check(t.Context(), w.event, "w").Err)
	require.NoError(t, a.service.Leave(t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(t, w, "in")}))
	w.tick(a)
	require.Equal(t, int64(1), a.meter.admitted-1)
}

// An operator's decision applies even to the first visitor of a line that was not in use.
func TestFirstVisitorOfIdleLineMeetsCurrentSale(t *testing.T) {
	w := newTestEnv(t)
	tickets := &fakeTicket{}
	tickets.setStatus(w.event, line.OnSale, w.clock.Now().Add(-time.Hour))
	a := w.replicaAsking(tickets)
	a.open(t, w.event)
	for range 150 {
		w.second(a)
	}
	tickets.setStatus(w.event, line.SalePaused, w.clock.Now().Add(-time.Hour))
	tickets.setThreshold(w.event, 7)
	w.clock.Advance(2100 * time.Millisecond)
	p := a.check(t.Context(), w.event, "u").Place
	requirePlace(t, line.StatusQueued, line.SalePaused, p)
	require.Equal(t, int64(7), p.Threshold)
}
