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

// The room serves 500 positions per 10 s. A step is what is served between two reads of a replica.
const (
	roomBatch    = 500
	roomInterval = 10 * time.Second
	roomStep     = 20
	// lateWrite is the maximum time from the computation of a step to its write.
	lateWrite = 2 * time.Second
)

// rateSize is the size of a run.
type rateSize struct {
	visitors int
	watch    time.Duration // how long visitors come while the rate is watched
	kill     time.Duration // time between two kills
	// minShare is the least share of the rate that each interval must serve. Each takeover costs up to
	// 0.4 s of it. The short form runs beside other tests, which delay replicas, so it has no minimum.
	minShare float64
	// late is the time by which other tests may delay the write of a step.
	late time.Duration
}

var (
	longRate  = rateSize{visitors: 6000, watch: 60 * time.Second, kill: 12 * time.Second, minShare: 0.95}
	shortRate = rateSize{visitors: 1500, watch: 6 * time.Second, kill: 3 * time.Second, late: lateWrite}
)

// fastClock is the failpoint of a clock that is 30 s ahead.
const fastClock = "clock=skew:30s"

// TestTier1KeepsItsRate serves a waiting room by three replicas, one with a clock 30 s ahead, while
// replicas are killed and an operator advances the serving counter. It never goes back, and never
// moves faster than the rate. In the full form also: nobody comes in what seems an hour to the
// replicas, half of the visitors leave, claims cannot be written, and 5,000 visitors return.
func TestTier1KeepsItsRate(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
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

// advance is an operator's advance of the counter, made at some time from before to after.
type advance struct {
	before, after time.Time
	positions     int64
}

// fetchServed lets the visitors for whom comes is true fetch their tokens once they are served,
// until stop is called.
func (r *rateRun) fetchServed(guests []*guest, comes func(position int64) bool) (stop func()) {
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
			// A visitor without an answer, since a replica is being killed, soon asks the next replica: late
			// claims slow the counter down.
			for i := range r.replicas {
				if r.Service(platform.VWR).Running(i) {
					attempt, stop := context.WithTimeout(ctx, 300*time.Millisecond)
					r.fetch(attempt, i, withoutToken(due))
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

// setRate sets the number of positions that are served per interval.
func (r *rateRun) setRate(batch int64, interval time.Duration) {
	r.t.Helper()
	seconds := int64(interval / time.Second)
	r.activate(&vwrv1.ActivateRequest{Batch: &batch, IntervalSeconds: &seconds})
}

// arrive gives all visitors positions before it serves any, so that they come as soon as they are
// served: late ones would slow the counter down. It returns once the counter moves. The allowance
// until then is one step, of at most a batch.
func (r *rateRun) arrive(guests []*guest, comes func(position int64) bool, batch int64) (stop func()) {
	r.t.Helper()
	r.setRate(1, time.Hour)
	r.enter(guests)
	stop = r.fetchServed(guests, comes)
	before, err := r.serving(r.t.Context())
	require.NoError(r.t, err)
	r.setRate(batch, roomInterval)
	r.Eventually(func(ctx context.Context) error {
		now, err := r.serving(ctx)
		if err == nil && now < before+2 { // one is served at the slow rate
			err = errors.New("nobody is served")
		}
		return err
	})
	return stop
}

// everybodyComes checks the rate while replicas are killed one after another, and an operator
// serves some visitors at once.
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

// serve advances the counter as an operator. The counter must never go back.
func (r *rateRun) serve(n int64) {
	r.t.Helper()
	before, err := r.serving(r.t.Context())
	require.NoError(r.t, err)
	// An attempt without an answer may have been applied, or may be applied later: all attempts count.
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

// requireRate requires that the counter never goes back, and from each change on moves at most at
// the rate plus one step; in the short form this change may have been written late. Also, each
// interval must have served enough, unless this process was late too: on a busy machine replicas
// miss their steps, and each takeover costs time.
func (r *rateRun) requireRate(all []sample) {
	r.t.Helper()
	perSecond := float64(roomBatch) / roomInterval.Seconds()
	worst, judged, busy := math.Inf(1), 0, 0 // worst is the lowest share of the rate
	for c := 1; c < len(all); c++ {
		require.GreaterOrEqual(r.t, all[c].serving, all[c-1].serving, "it goes back")
		if all[c].serving == all[c-1].serving {
			continue
		}
		for j := c + 1; j < len(all); j++ {
			// The change was made after the sample before it was asked for.
			within := all[j].after.Sub(all[c-1].before) + r.size.late
			maxServed := perSecond*within.Seconds() + roomStep + float64(r.advanced(all[c-1].before, all[j].after))
			served := float64(all[j].serving - all[c].serving)
			require.LessOrEqual(r.t, served, maxServed, "in %v", all[j].after.Sub(all[c-1].before))
			took := all[j].before.Sub(all[c].after)
			if took < min(roomInterval, r.size.watch/2) || all[j].serving == all[j-1].serving {
				continue // an interval begins and ends with a step
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
	require.GreaterOrEqual(r.t, worst, r.size.minShare)
	if r.size.minShare > 0 {
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

// advanced returns the positions that operators may have served between two times.
func (r *rateRun) advanced(since, until time.Time) (positions int64) {
	for _, a := range r.advances {
		if a.after.After(since) && a.before.Before(until) {
			positions += a.positions
		}
	}
	return positions
}

// perInterval returns the numbers of positions that were served in each interval.
func perInterval(all []sample) (served []int64) {
	first := all[0]
	for _, s := range all {
		if s.before.Sub(first.after) >= roomInterval {
			served = append(served, s.serving-first.serving)
			first = s
		}
	}
	return served
}

// idleHour serves everybody and restarts the replicas with clocks an hour ahead. New visitors are
// then served at the rate, after one step of at most a batch. The vwr service's
// TestAdvancersAfterIdlePeriod tests an idle hour of a running replica.
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

// shareLearnt is longer than ShareWindow, over which vwr measures the share of visitors who come.
const shareLearnt = 90 * time.Second

// halfHaveLeft serves a crowd of which every other visitor has left. Then 5,000 of those who left
// return.
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
	r.setRate(roomBatch, roomInterval)
	time.Sleep(waittimes.LongestPoll + shareLearnt) // until the vwr service has learnt the share

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
	time.Sleep(shareLearnt) // until queued claims are written and the share is learnt

	var returning []*guest
	for _, g := range r.guests {
		if g.position%2 == 1 && g.position < 12_000 && len(returning) < 5000 {
			returning = append(returning, g)
		}
	}
	require.Len(r.t, returning, 5000)
	for i := range r.replicas {
		r.fetch(r.t.Context(), i, withoutToken(returning))
	}
	time.Sleep(5 * time.Second) // queued claims are written
	served, _ = r.intervals(1)
	r.t.Logf("5,000 have come back: served %v in %v", served, roomInterval)
	require.LessOrEqual(r.t, served[0], int64(0.6*2*roomBatch), "it slows down")
}

// intervals returns the numbers of positions served and claimed in each of the next n intervals.
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
