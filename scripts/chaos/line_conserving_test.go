package chaos_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/loop"
	"urr.guru/scripts/platform"
)

// conservingSize is the size of lines: of their first visitors (the head), who leave, and the rest.
type conservingSize struct {
	head, behind, threshold int
	batch                   int // the most admissions per second
	arrive                  time.Duration
	gatewaysAway            time.Duration
}

var (
	longConserving = conservingSize{
		head: 1000, behind: 1000, threshold: 200, batch: 25, arrive: 20 * time.Second, gatewaysAway: 10 * time.Second,
	}
	shortConserving = conservingSize{
		head: 40, behind: 20, threshold: 24, batch: 6, arrive: time.Second, gatewaysAway: time.Second,
	}
)

const (
	// admitLimit is the maximum time from when the head leaves until the next visitor is admitted.
	admitLimit = time.Minute
	// idleShare is the maximum mean share of idle slots in the first minute after the head has left.
	idleShare = 0.1
	idleEvery = 250 * time.Millisecond
)

// TestLineServesWhoIsPresent lets the head of a full line leave without notice. Its slots go to the
// visitors behind, and returning visitors have their old places. Three replicas together admit no
// more per second than one, and an outage of the gateways does not change the order. The short form
// tests only the last two, since absence takes at least 15 s.
func TestLineServesWhoIsPresent(t *testing.T) {
	parallelIfShort(t)
	seed, rng := seededRandom(t)
	size := shortConserving
	if *full {
		size = longConserving
	}
	l := setupLine(t, rng, nil, fmt.Sprintf("QUEUE_ADMISSION_BATCH_SIZE=%d", size.batch))
	if *full {
		l.admitBehindAbsentHead(fmt.Sprintf("alone-%d", seed), size)
	}
	l.open(fmt.Sprintf("full-%d", seed), 0)
	// A visit takes two minutes. The first visits end at random times within that.
	c := l.newCrowd(l.between(0, 2*time.Minute))
	c.arrive(size.threshold+size.head+size.behind, size.arrive)
	c.await(waits, size.threshold+size.head+size.behind)
	l.setThreshold(size.threshold)
	c.await(inside, size.threshold)
	l.requireBatch(size)
	c.setStay(l.between(time.Minute, 3*time.Minute))
	if *full {
		l.serveBehindAbsentHead(c, size)
	}
	l.sendGatewaysAway(c, size)
	l.requireOrder()
	c.requireNoProblem()
}

// requireBatch requires that each second admitted at most a batch, and that a whole batch was
// admitted in a second with free slots.
func (l *lineRun) requireBatch(size conservingSize) {
	l.t.Helper()
	ticks := map[int64]int{}
	for _, a := range l.admissions() {
		ticks[a.Tick]++
	}
	counts := make([]int, 0, len(ticks))
	for _, tick := range slices.Sorted(maps.Keys(ticks)) {
		counts = append(counts, ticks[tick])
	}
	l.t.Logf("%d replicas admitted by seconds: %v", queueReplicas, counts)
	require.LessOrEqual(l.t, slices.Max(counts), size.batch)
	require.Equal(l.t, size.batch, slices.Max(counts), "the batch was never used")
}

// admitBehindAbsentHead has a line with one slot. The only visitor present waits behind a head that
// has left, and is admitted once the absence of the head is certain.
func (l *lineRun) admitBehindAbsentHead(eventID string, size conservingSize) {
	l.t.Helper()
	l.open(eventID, 1)
	c := l.newCrowd(func() time.Duration { return time.Hour })
	c.arrive(1, time.Millisecond)
	c.await(inside, 1)
	head := c.arrive(size.head, size.arrive)
	c.await(waits, size.head)
	present := c.arrive(1, time.Millisecond)[0]
	c.await(waits, size.head+1)
	before, _ := l.places()
	c.leave(head)
	c.dismiss(1, time.Millisecond)
	leftAt := time.Now()
	l.Eventually(func(context.Context) error {
		if c.phaseOf(present) != inside {
			return errors.New(present.user + " is not inside")
		}
		return nil
	})
	took := time.Since(leftAt)
	l.t.Logf("%s, present at %d, was admitted %v after those before had left", present.user, size.head+1, took.Round(100*time.Millisecond))
	require.Less(l.t, took, admitLimit)
	l.requireOldPlaces(c, head, before)
	l.requireOrder()
	c.requireNoProblem()
	c.leave(c.all)
}

// requireOldPlaces lets parked visitors come back, and requires that each gets the old place.
func (l *lineRun) requireOldPlaces(c *lineCrowd, visitors []*visitor, before map[string]int64) {
	l.t.Helper()
	_, parked := l.places()
	found := 0
	for _, v := range visitors {
		if parked[v.user] == before[v.user] {
			found++
		}
	}
	l.t.Logf("%d of %d are parked with their places", found, len(visitors))
	c.comeBack(visitors, 20*time.Second)
	l.Eventually(func(context.Context) error {
		if _, parked := l.places(); len(parked) > 0 {
			return fmt.Errorf("%d are not back", len(parked))
		}
		return nil
	})
	after, _ := l.places()
	for _, v := range visitors {
		require.Equal(l.t, before[v.user], after[v.user], "%s has another place than before", v.user)
	}
	l.t.Logf("%d have come back to their old places", len(visitors))
}

// serveBehindAbsentHead lets the head of a full line leave. A slot is idle if nobody is present in
// it: it is free, or its holder has left or not noticed yet.
func (l *lineRun) serveBehindAbsentHead(c *lineCrowd, size conservingSize) {
	l.t.Helper()
	waiting, _ := l.places()
	users := slices.SortedFunc(maps.Keys(waiting), func(a, b string) int { return int(waiting[a] - waiting[b]) })
	head := map[string]bool{}
	for _, user := range users[:size.head] {
		head[user] = true
	}
	c.leave(c.withIDs(head))
	left, samples, idle, free := time.Now(), 0, int64(0), int64(0)
	for time.Since(left) < time.Minute {
		active, unclaimed, err := l.slots(l.t.Context(), l.event)
		require.NoError(l.t, err)
		samples++
		idle += int64(size.threshold) - active + unclaimed
		free += int64(size.threshold) - active
		loop.Sleep(l.t.Context(), idleEvery)
	}
	mean, meanFree := float64(idle)/float64(samples), float64(free)/float64(samples)
	l.t.Logf("of %d slots %.1f were idle on the mean of the minute after the %d before had left, %.1f of them free: %s",
		size.threshold, mean, size.head, meanFree, c.state())
	require.LessOrEqual(l.t, mean, idleShare*float64(size.threshold))
}

// sendGatewaysAway kills all gateways for a while. Nobody is parked meanwhile, and places stay.
func (l *lineRun) sendGatewaysAway(c *lineCrowd, size conservingSize) {
	l.t.Helper()
	before, parkedBefore := l.places()
	for i := range lineGateways {
		l.Service(platform.Gateway).Kill(i)
	}
	loop.Sleep(l.t.Context(), size.gatewaysAway)
	during, parked := l.places()
	for i := range lineGateways {
		l.Service(platform.Gateway).Start(i)
	}
	l.requireSamePlaces(before, parkedBefore, during, parked)
	l.awaitContact(c)
	after, parked := l.places()
	l.requireSamePlaces(before, parkedBefore, after, parked)
	l.t.Logf("%d waited before the gateways were away for %v, %d do after: %s", len(before), size.gatewaysAway, len(after), c.state())
}

// requireSamePlaces requires that all who still wait have the same scores, and nobody was parked.
func (l *lineRun) requireSamePlaces(before, parkedBefore, after, parked map[string]int64) {
	l.t.Helper()
	require.NotEmpty(l.t, after)
	for user, score := range after {
		require.Equal(l.t, before[user], score, "%s has another place than before", user)
	}
	for user := range parked {
		require.Contains(l.t, parkedBefore, user, "%s was parked while the gateways were away", user)
	}
}

// awaitContact waits until all polling visitors have had an answer since this call.
func (l *lineRun) awaitContact(c *lineCrowd) {
	l.t.Helper()
	began := time.Now()
	l.Eventually(func(context.Context) error {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, v := range c.all {
			if !v.away && v.phase == waits && v.answered.Before(began) {
				return errors.New(v.user + " has no answer yet")
			}
		}
		return nil
	})
}
