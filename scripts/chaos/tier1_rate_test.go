package chaos_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	waittimes "urr.guru/pkg/waits"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/scripts/awsproxy"
	"urr.guru/scripts/harness"
	"urr.guru/scripts/platform"
)

// The rate of the room: 500 positions per 10 s. A step is what is served between two reads of a replica.
const (
	roomBatch    = 500
	roomInterval = 10 * time.Second
	roomStep     = 20
	// lateWrite is the longest time from the computation of a step to its write.
	lateWrite = 2 * time.Second
)

// rateSize is the size of a run.
type rateSize struct {
	visitors int
	watch    time.Duration // how long everybody comes
	kill     time.Duration // between two kills
	// least is the least share of the rate that is served in each interval. Each takeover costs up to
	// 0.4 s of it. The short form runs beside other tests, which delay replicas, and sets none.
	least float64
	// late is by how much those tests may delay the write of a step.
	late time.Duration
}

var (
	longRate  = rateSize{visitors: 6000, watch: 60 * time.Second, kill: 12 * time.Second, least: 0.95}
	shortRate = rateSize{visitors: 1500, watch: 6 * time.Second, kill: 3 * time.Second, late: lateWrite}
)

// fastClock is the failpoint of a clock that is 30 s ahead.
const fastClock = "clock=skew:30s"

// TestTier1KeepsItsRate serves a waiting room by three replicas, one of them with a clock that is 30 s
// ahead, while replicas are killed and an operator moves the counter. It never goes back, and is never
// faster than the rate. In its full form half of the visitors leave, claims cannot be written for a
// while, and 5,000 visitors return; nobody comes for what the replicas take for an hour.
func TestTier1KeepsItsRate(t *testing.T) {
	sideBySide(t)
	seed, rng := order(t)
	size := shortRate
	if *full {
		size = longRate
	}
	r := &rateRun{tier1: setupTier1(t, 3, rng, fmt.Sprintf("rate-%d", seed), harness.Options{AWS: *full}), size: size}
	r.Service(platform.VWR).RestartWithFailpoints(2, fastClock)
	r.everybodyComes()
	if !*full {
		return
	}
	r.idleHour()
	r.halfHaveLeft()
}

type rateRun struct {
	*tier1

	size     rateSize
	guests   []*guest
	advances []advance
}

// advance is an operator's act, done at some time from before to after.
type advance struct {
	before, after time.Time
	positions     int64
}

// comers lets visitors fetch their tokens as soon as they are served, those for whom comes is true,
// until the result is called.
func (r *rateRun) comers(guests []*guest, comes func(position int64) bool) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var work sync.WaitGroup
	work.Go(func() {
		waiting := guests
		for tick := time.NewTicker(200 * time.Millisecond); ; {
			serving, err := r.serving(ctx)
			var due, later []*guest
			for _, g := range waiting {
				switch {
				case err != nil || g.position > serving:
					later = append(later, g)
				case comes(g.position):
					due = append(due, g)
				}
			}
			// Who gets no answer from a replica that is being killed asks the next one, soon: late claims
			// slow the counter down.
			for i := range r.replicas {
				if r.Service(platform.VWR).Running(i) {
					asking, stop := context.WithTimeout(ctx, 300*time.Millisecond)
					r.fetch(asking, i, withoutToken(due))
					stop()
				}
			}
			waiting = append(withoutToken(due), later...)
			select {
			case <-ctx.Done():
				tick.Stop()
				return
			case <-tick.C:
			}
		}
	})
	return func() {
		cancel()
		work.Wait()
	}
}

func withoutToken(guests []*guest) (left []*guest) {
	for _, g := range guests {
		if g.token == "" {
			left = append(left, g)
		}
	}
	return left
}

func everybody(int64) bool { return true }

// pace sets the number of positions that are served per interval.
func (r *rateRun) pace(batch int64, interval time.Duration) {
	r.t.Helper()
	seconds := int64(interval / time.Second)
	r.activate(&vwrv1.ActivateRequest{Batch: &batch, IntervalSeconds: &seconds})
}

// arrive gives positions to visitors, and serves them only when all have one and come as soon as they
// are served: who comes late would slow the counter down. It returns once the counter moves. What was
// earned until then is one step, of at most a batch.
func (r *rateRun) arrive(guests []*guest, comes func(position int64) bool, batch int64) (stop func()) {
	r.t.Helper()
	r.pace(1, time.Hour)
	r.enter(guests)
	stop = r.comers(guests, comes)
	before, err := r.serving(r.t.Context())
	require.NoError(r.t, err)
	r.pace(batch, roomInterval)
	r.Eventually(func(ctx context.Context) error {
		now, err := r.serving(ctx)
		if err == nil && now < before+2 { // one is served by the slow pace
			err = errors.New("nobody is served")
		}
		return err
	})
	return stop
}

// everybodyComes watches the rate while replicas are killed one after another, and an operator serves
// some visitors at once.
func (r *rateRun) everybodyComes() {
	r.t.Helper()
	r.guests = r.newGuests(r.size.visitors)
	stop := r.arrive(r.guests, everybody, roomBatch)
	samples := r.watch()
	began, kills, victim := time.Now(), 0, 0
	for time.Since(began) < r.size.watch {
		time.Sleep(r.size.kill / 2)
		r.restart(victim % r.replicas)
		victim, kills = victim+1, kills+1
		if kills == 1 {
			r.serve(100)
		}
		time.Sleep(r.size.kill / 2)
	}
	stop()
	all := samples()
	require.NotEmpty(r.t, all)
	r.requireRate(all)
	first, last := all[0], all[len(all)-1]
	r.t.Logf("%d kills, %d served in %v, of them 100 by an operator; in each %v: %v", kills, last.serving-first.serving,
		last.after.Sub(first.before).Round(time.Millisecond), roomInterval, perInterval(all))
}

// restart kills a replica and starts it again.
func (r *rateRun) restart(i int) {
	r.t.Helper()
	s := r.Service(platform.VWR)
	s.Kill(i)
	if i == 2 {
		s.RestartWithFailpoints(i, fastClock)
	} else {
		s.Start(i)
	}
}

// serve is an operator's advance. It is never undone.
func (r *rateRun) serve(n int64) {
	r.t.Helper()
	before, err := r.serving(r.t.Context())
	require.NoError(r.t, err)
	// An attempt without an answer may have been applied, or may still be: each one counts.
	got := r.act(func(ctx context.Context, c vwrv1.VwrAdminServiceClient) (*vwrv1.VwrStatus, error) {
		began := time.Now()
		status, err := c.Advance(ctx, &vwrv1.AdvanceRequest{Caller: roomOperator, EventId: r.eventID, BatchSize: &n})
		end := time.Now()
		if err != nil {
			end = end.Add(lateWrite)
		}
		r.advances = append(r.advances, advance{began, end, n})
		return status, err
	})
	require.GreaterOrEqual(r.t, got.GetServingCounter(), min(before+n, got.GetNextPosition()))
}

// requireRate requires what does not depend on how busy the machine is: the counter never goes back,
// and from each of its changes on it moves at most at the rate and by one step; in the short form
// that change may have been written late. And each interval must have served enough, but one in which
// this process too was late: on a busy machine replicas miss their steps, and each takeover costs
// time.
func (r *rateRun) requireRate(all []sample) {
	r.t.Helper()
	perSecond := float64(roomBatch) / roomInterval.Seconds()
	worst, judged, busy := math.Inf(1), 0, 0 // the least share of the rate in any interval
	for c := 1; c < len(all); c++ {
		require.GreaterOrEqual(r.t, all[c].serving, all[c-1].serving, "it goes back")
		if all[c].serving == all[c-1].serving {
			continue
		}
		for j := c + 1; j < len(all); j++ {
			// The change was made after the sample before it was asked for.
			within := all[j].after.Sub(all[c-1].before) + r.size.late
			most := perSecond*within.Seconds() + roomStep + float64(r.advanced(all[c-1].before, all[j].after))
			served := float64(all[j].serving - all[c].serving)
			require.LessOrEqual(r.t, served, most, "in %v", all[j].after.Sub(all[c-1].before))
			took := all[j].before.Sub(all[c].after)
			if took < min(roomInterval, r.size.watch/2) || all[j].serving == all[j-1].serving {
				continue // an interval ends, as it begins, with a step
			}
			if longestPause(all[c-1:j+1]) > maxPause {
				busy++
			} else {
				worst = min(worst, served/(perSecond*took.Seconds()))
				judged++
			}
			break
		}
	}
	r.t.Logf("the least of %d intervals: %.3f of the rate; the machine was too busy in %d others", judged, worst, busy)
	require.GreaterOrEqual(r.t, worst, r.size.least)
	if r.size.least > 0 {
		require.NotZero(r.t, judged, "the machine was too busy throughout")
	}
	require.NotZero(r.t, judged+busy, "the counter has hardly moved")
}

// maxPause is the longest time between two samples on a machine that is not too busy.
const maxPause = 100 * time.Millisecond

func longestPause(samples []sample) (longest time.Duration) {
	for i := 1; i < len(samples); i++ {
		longest = max(longest, samples[i].after.Sub(samples[i-1].after))
	}
	return longest
}

// advanced is what operators may have served from one time to another.
func (r *rateRun) advanced(from, to time.Time) (positions int64) {
	for _, a := range r.advances {
		if a.after.After(from) && a.before.Before(to) {
			positions += a.positions
		}
	}
	return positions
}

// perInterval is what was served in each interval.
func perInterval(all []sample) (served []int64) {
	from := all[0]
	for _, s := range all {
		if s.before.Sub(from.after) >= roomInterval {
			served = append(served, s.serving-from.serving)
			from = s
		}
	}
	return served
}

// idleHour lets everybody through and restarts the replicas with clocks that are an hour ahead. Those
// who come then are served at the rate, after one step of at most a batch. An idle hour of a running
// replica is in the tests of vwr (TestAdvancersAfterIdlePeriod).
func (r *rateRun) idleHour() {
	r.t.Helper()
	r.serve(int64(len(r.guests)))
	for i := range r.replicas {
		r.Service(platform.VWR).RestartWithFailpoints(i, "clock=skew:1h")
	}
	crowd := r.newGuests(2000)
	stop := r.arrive(crowd, everybody, roomBatch)
	samples := r.watch()
	time.Sleep(2 * roomInterval)
	stop()
	all := samples()
	require.NotEmpty(r.t, all)
	r.requireRate(all)
	require.LessOrEqual(r.t, all[len(all)-1].serving-all[0].serving, int64(3*roomBatch), "two intervals and one step")
	r.t.Logf("after an idle hour, served in each %v: %v", roomInterval, perInterval(all))
}

// shareLearnt is longer than the window of the share of visitors who come (vwr, ShareWindow).
const shareLearnt = 90 * time.Second

// halfHaveLeft serves a crowd of which every other visitor has left, then lets 5,000 of those come
// back.
func (r *rateRun) halfHaveLeft() {
	r.t.Helper()
	r.deactivate()
	r.guests = r.newGuests(40_000)
	defer r.arrive(r.guests, func(position int64) bool { return position%2 == 0 }, 10*roomBatch)()
	r.Eventually(func(ctx context.Context) error { // 6,000 of them have left
		serving, err := r.serving(ctx)
		if err == nil && serving < 12_000 {
			err = fmt.Errorf("%d are served", serving)
		}
		return err
	})
	r.pace(roomBatch, roomInterval)
	time.Sleep(waittimes.LongestPoll + shareLearnt) // it is learnt after the last polls that the first rate surprised

	served, claims := r.intervals(4)
	r.t.Logf("half have left: served %v, claimed %v in each %v", served, claims, roomInterval)
	for _, n := range claims {
		require.GreaterOrEqual(r.t, n, int64(0.9*roomBatch))
	}
	r.DynamoDB().Use(func(c awsproxy.Call) (f awsproxy.Fault) {
		if c.Name == "UpdateItem" && (bytes.Contains(c.Body, []byte("#claims")) || bytes.Contains(c.Body, []byte("claims#"))) {
			return awsproxy.Unavailable()
		}
		return f
	})
	served, _ = r.intervals(3)
	r.DynamoDB().Use(nil)
	r.t.Logf("claims cannot be written: served %v in each %v", served, roomInterval)
	for _, n := range served {
		require.InDelta(r.t, 2*roomBatch, n, 0.1*2*roomBatch)
	}
	time.Sleep(shareLearnt) // claims that were queued are written, and the share is learnt again

	var back []*guest
	for _, g := range r.guests {
		if g.position%2 == 1 && g.position < 12_000 && len(back) < 5000 {
			back = append(back, g)
		}
	}
	require.Len(r.t, back, 5000)
	for i := range r.replicas {
		r.fetch(r.t.Context(), i, withoutToken(back))
	}
	time.Sleep(5 * time.Second) // queued claims are written
	served, _ = r.intervals(1)
	r.t.Logf("5,000 have come back: served %v in %v", served, roomInterval)
	require.LessOrEqual(r.t, served[0], int64(0.6*2*roomBatch), "it slows down")
}

// intervals returns what was served and claimed in each of the next intervals.
func (r *rateRun) intervals(n int) (served, claimed []int64) {
	r.t.Helper()
	read := func() (s, c int64) {
		r.Eventually(func(ctx context.Context) (err error) {
			if s, err = r.serving(ctx); err == nil {
				c, err = r.claimed(ctx)
			}
			return err
		})
		return s, c
	}
	s, c := read()
	for range n {
		time.Sleep(roomInterval)
		s2, c2 := read()
		served, claimed = append(served, s2-s), append(claimed, c2-c)
		s, c = s2, c2
	}
	return served, claimed
}
