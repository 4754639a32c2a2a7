// Package overload refuses a share of the polls of the waiting rooms and lines while the processors
// are overloaded. So there is processor time for holds, payments and all else that visitors do
// once.
package overload

import (
	"context"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/loop"
)

const (
	// interval is the time between two measurements.
	interval = 100 * time.Millisecond
	// minWaits is the fewest waits in an interval that are used. With fewer, the interval counts as
	// one without waits. The runtime measures one wait of eight.
	minWaits = 20
	// MaxShare is the highest share that is refused, in percent. Visitors who poll again still get
	// through, so that those whose turn has come are let in.
	MaxShare = 90
	// In each interval the share grows by raise or falls by lower, in percent. It grows fast, from
	// none to MaxShare in a second, since requests pile up. It falls slowly, until the next overload.
	raise, lower = 9, 1
	// retry is how long after a refusal a visitor may poll again.
	retry = 5 * time.Second
)

// latencies is the runtime's histogram of how long goroutines were ready before they ran.
const latencies = "/sched/latencies:seconds"

// Shedder refuses polls while goroutines wait long for a processor. The number of requests in
// progress does not show this, since a poll that is answered from memory waits before it begins.
type Shedder struct {
	// maxWait is what the 90th percentile of the waits exceeds in an overload; 0: never.
	maxWait time.Duration

	share  atomic.Int64 // percent of the polls that is refused
	polls  atomic.Int64 // sum of the shares of all polls: one is refused at each full hundred
	sample [1]metrics.Sample
	before []uint64 // counts of the buckets at the last measurement
}

// New makes a Shedder, which refuses nothing until Run has measured an overload: a 90th percentile
// of the waits for a processor above maxWait. A hold waits about ten times: for its request, its
// batch, its answer. With a maxWait of 0 nothing is ever refused.
func New(maxWait time.Duration) *Shedder {
	s := &Shedder{maxWait: maxWait}
	s.sample[0].Name = latencies
	return s
}

// Run measures until ctx ends.
func (s *Shedder) Run(ctx context.Context) error {
	return loop.Every(ctx, interval, func(context.Context) { s.Observe(s.measure()) })
}

// Observe adapts the share of refused polls to the wait in an interval.
func (s *Shedder) Observe(wait time.Duration) {
	share := s.share.Load()
	if s.maxWait > 0 && wait > s.maxWait {
		share = min(share+raise, MaxShare)
	} else {
		share = max(share-lower, 0)
	}
	s.share.Store(share)
	waitSeconds.Set(wait.Seconds())
	refusedShare.Set(float64(share) / 100)
}

// Refusal returns errs.ErrOverloaded for the present share of the polls, else nil.
func (s *Shedder) Refusal() error {
	share := s.share.Load()
	if share == 0 {
		return nil
	}
	if sum := s.polls.Add(share); sum/100 == (sum-share)/100 {
		return nil
	}
	return errs.ErrOverloaded.WithRetry(retry)
}

// measure returns the 90th percentile of the waits for a processor since the last call; 0 at the
// first call.
func (s *Shedder) measure() time.Duration {
	metrics.Read(s.sample[:])
	h := s.sample[0].Value.Float64Histogram()
	first := s.before == nil
	if first {
		s.before = make([]uint64, len(h.Counts))
	}
	waits := make([]uint64, len(h.Counts))
	for i, n := range h.Counts {
		waits[i] = n - s.before[i]
	}
	copy(s.before, h.Counts)
	if first { // the waits since the start of the process
		return 0
	}
	return percentile90(waits, h.Buckets)
}

// percentile90 returns the 90th percentile of the waits, rounded down to the bound of its bucket; 0
// for fewer than minWaits. waits[i] counts the waits from bounds[i] to bounds[i+1] seconds.
func percentile90(waits []uint64, bounds []float64) time.Duration {
	var all, above uint64
	for _, n := range waits {
		all += n
	}
	if all < minWaits {
		return 0
	}
	for i := len(waits) - 1; i > 0; i-- {
		if above += waits[i]; above*10 >= all {
			return time.Duration(bounds[i] * float64(time.Second))
		}
	}
	return 0
}
