package room

import (
	"math"
	"time"
)

// RateLimiter decides how far a replica may advance one event's serving counter. It measures, by
// the replica's own monotonic clock, how long the counter has been unchanged. A value is always
// read after it was written, so the measured time is never longer than the true one: the rate is
// kept with any number of replicas, wrong clocks and crashes. The zero value has observed nothing
// and allows nothing. It is not safe for concurrent use.
type RateLimiter struct {
	observed bool
	round    Round
	serving  int64
	since    time.Time
}

// Observe records a consistent read of the counters that ended at now. If another replica has moved
// the counter, the measurement starts again: that replica goes on moving it, and this one takes
// over when the other stops.
func (l *RateLimiter) Observe(c Counters, now time.Time) {
	if l.observed && l.round == c.Round && l.serving == c.Serving {
		return
	}
	*l = RateLimiter{observed: true, round: c.Round, serving: c.Serving, since: now}
}

// IgnoreTimeBefore makes the time before t not count: a measurement that began earlier begins at t.
func (l *RateLimiter) IgnoreTimeBefore(t time.Time) {
	if l.since.Before(t) {
		l.since = t
	}
}

// Allowance returns by how many positions the counter may advance at now: the rate (positions per
// second) times the time for which the counter has been unchanged. It is at most one batch, and
// ends at the last issued position.
func (l *RateLimiter) Allowance(c Counters, rate float64, now time.Time) int64 {
	if !l.observed || l.round != c.Round || l.serving != c.Serving {
		return 0
	}
	return min(l.earnedPositions(rate, now), c.Settings.Batch, c.Waiting())
}

func (l *RateLimiter) earnedPositions(rate float64, now time.Time) int64 {
	return int64(min(math.Floor(rate*now.Sub(l.since).Seconds()), math.MaxInt32))
}

// RecordAdvance records that this replica moved the counter by n in a write begun at start. It
// keeps the fraction of a position earned beyond n: otherwise a rate of 0.9 per step would become
// 0. It drops whole positions beyond n, which the batch or the end of the queue did not allow:
// otherwise an idle period would end in a burst.
func (l *RateLimiter) RecordAdvance(n int64, rate float64, start time.Time) {
	if l.earnedPositions(rate, start) == n && rate > 0 {
		l.since = l.since.Add(time.Duration(float64(n) / rate * float64(time.Second)))
	} else {
		l.since = start
	}
	l.serving += n
}
