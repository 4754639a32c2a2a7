package line_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/queue/internal/line"
)

// postpone makes the next tick of the line due in a minute only.
func (w *testEnv) postpone() {
	w.t.Helper()
	due := goredis.Z{Score: float64(w.clock.Now().Add(time.Minute).UnixMilli()), Member: w.event}
	require.NoError(w.t, w.client.ZAdd(w.t.Context(), "{"+w.registry+"}:due", due).Err())
}

// makeIdle opens the event's line, and runs the replicas until the line is not in use any more.
func (w *testEnv) makeIdle(rs ...*replica) {
	w.t.Helper()
	rs[0].open(w.t, w.event)
	for range 150 {
		w.second(rs...)
	}
	w.postpone()
}

// freeSlot ends the only slot while another visitor waits for it.
func (w *testEnv) freeSlot(r *replica) {
	w.t.Helper()
	for _, user := range []string{"in", "w"} {
		require.NoError(w.t, r.check(w.t.Context(), w.event, user).Err)
	}
	require.NoError(w.t, r.service.Leave(w.t.Context(), w.event, "in", &line.EntryClaims{SlotID: slotOf(w.t, w, "in")}))
}

// markingStore calls before when a visitor's call is about to mark a line as busy. If before
// returns an error, the line is not marked.
type markingStore struct {
	line.Store

	before func() error
}

func (m *markingStore) ClaimTicks(ctx context.Context, r line.TickRequest) (line.TickPlan, error) {
	if r.Lease == 0 {
		if err := m.before(); err != nil {
			return line.TickPlan{}, err
		}
	}
	return m.Store.ClaimTicks(ctx, r)
}

// While the schedule fails, only one visitor's call in two seconds tries to mark the line.
func TestFailedMarkIsRepeatedByNextPlan(t *testing.T) {
	w := newTestEnv(t)
	tries := 0
	a := w.replicaOn(&markingStore{Store: w.store(), before: func() error {
		tries++
		return errs.ErrUnavailable
	}})
	w.makeIdle(a)
	tries = 0
	w.freeSlot(a)
	require.Equal(t, 1, tries)
	before := a.meter.admitted
	w.tick(a)
	require.Equal(t, int64(1), a.meter.admitted-before)
}

func TestCancelledCallMarksLine(t *testing.T) {
	w := newTestEnv(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	store := &markingStore{Store: w.store(), before: func() error { return nil }}
	a := w.replicaOn(store)
	w.makeIdle(a)
	store.before = func() error {
		cancel()
		return nil
	}
	require.Error(t, a.check(ctx, w.event, "u").Err)
	require.NoError(t, w.client.ZScore(t.Context(), "{"+w.registry+"}:busy", w.event).Err())
}

// A failover of the schedule's Redis node may lose the latest marks; they are then repeated.
func TestLostMarkIsRepeated(t *testing.T) {
	w := newTestEnv(t)
	a := w.replica()
	w.makeIdle(a)
	w.freeSlot(a)
	before := a.meter.admitted
	require.NoError(t, w.client.ZRem(t.Context(), "{"+w.registry+"}:busy", w.event).Err())
	w.postpone()
	for range 4 {
		w.tick(a)
	}
	require.Equal(t, int64(1), a.meter.admitted-before)
}

// A replica uses its list of busy lines until its next plan, even if the tick interval is long.
func TestBusyListOutlivesLongInterval(t *testing.T) {
	w := newTestEnv(t)
	all, store := w.replicas(2)
	all[0].open(t, w.event)
	slow := line.NewWorker(all[1].service, 5*time.Second, time.Minute)
	w.tick(all[0])
	slow.Tick(t.Context())
	w.clock.Advance(6 * time.Second)
	slow.CleanLines(t.Context())
	require.Equal(t, int64(1), store.sweeps.Load())
}

// uncleanable is a store whose cleanups fail while err is set.
type uncleanable struct {
	line.Store

	err error
}

func (u *uncleanable) Clean(ctx context.Context, eventID string, m line.KnownState) (line.LineState, int64, bool, error) {
	if u.err != nil {
		return line.LineState{}, 0, false, u.err
	}
	return u.Store.Clean(ctx, eventID, m)
}

// A cleanup gives the keys of an unused line an expiry, but only if the line has been empty for a
// while: until then it may have slots of a sale that has just ended.
func TestIdleLineIsCleanedUpInTheEnd(t *testing.T) {
	w := newTestEnv(t)
	store := &uncleanable{Store: w.store()}
	a := w.replicaOn(store)
	live := func(d time.Duration) {
		for end := w.clock.Now().Add(d); w.clock.Now().Before(end); {
			w.second(a)
			a.worker.CleanLines(t.Context())
		}
	}
	expires := func() bool {
		left, err := w.client.PTTL(t.Context(), "{"+w.event+"}:line").Result()
		require.NoError(t, err)
		return left > 0
	}
	keep := func() { require.NoError(t, w.client.Persist(t.Context(), "{"+w.event+"}:line").Err()) }
	a.open(t, w.event)
	live(200 * time.Second)
	keep()
	store.err = errs.ErrUnavailable
	live(200 * time.Second)
	require.False(t, expires())
	store.err = nil
	live(6 * time.Minute)
	require.True(t, expires())
	keep()
	live(6 * time.Minute)
	require.False(t, expires(), "it is not cleaned up again")
}

func TestFiguresOfIdleLineFollowSettingsAndSale(t *testing.T) {
	w, tickets := newSaleEnv(t, line.Scheduled)
	opens := w.clock.Now().Add(5 * time.Minute)
	tickets.setStatus(w.event, line.Scheduled, opens)
	all := []*replica{w.replicaAsking(tickets), w.replicaAsking(tickets)}
	requireFigures := func(threshold int64, selling bool) {
		t.Helper()
		for _, r := range all {
			require.Equal(t, threshold, r.meter.figures.Threshold)
			require.Equal(t, selling, r.meter.figures.Selling)
		}
	}
	live := func(until time.Time) {
		for w.clock.Now().Before(until) {
			for _, r := range all {
				r.worker.RefreshSettings(t.Context())
			}
			w.second(all...)
		}
	}
	w.makeIdle(all...)
	requireFigures(1, false)
	tickets.setThreshold(w.event, 7)
	live(w.clock.Now().Add(12 * time.Second)) // the sale report is read every ten seconds
	requireFigures(7, false)
	live(opens.Add(-time.Second))
	w.postpone()
	requireFigures(7, false)
	live(opens.Add(3 * time.Second))
	requireFigures(7, true)
	live(opens.Add(2 * time.Minute))
	w.postpone()
	tickets.setStatus(w.event, line.SalePaused, opens)
	live(w.clock.Now().Add(12 * time.Second))
	requireFigures(7, false)
}

// An unused line, about which the ticket service is not asked, does not count as waiting for it.
func TestIdleLineIsNotSaidToWaitForTicket(t *testing.T) {
	w, tickets := newSaleEnv(t, line.OnSale)
	a := w.replicaAsking(tickets)
	w.makeIdle(a)
	w.clock.Advance(15 * time.Minute)
	a.worker.Tick(t.Context())
	require.False(t, a.meter.figures.Away)
	pauses := func() []line.PauseReason {
		o, err := a.service.ReadOverview(t.Context(), w.event)
		require.NoError(t, err)
		return o.Pauses
	}
	require.Empty(t, pauses())
	w.clock.Advance(15 * time.Minute)
	tickets.setError(errs.ErrUnavailable)
	require.Equal(t, []line.PauseReason{line.PausedByShop}, pauses())
}
