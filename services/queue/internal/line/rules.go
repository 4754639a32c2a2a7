// Package line is tier 2: the waiting line of each event. The store, in Redis, assigns places and slots
// atomically. This package decides which calls of the store to make, and turns their results into
// answers to visitors. It keeps nothing in memory that must not be lost.
package line

import (
	"math/rand/v2"
	"time"

	"urr.guru/pkg/waits"
)

// Rules are the constants of all lines. The store renders them into its scripts.
type Rules struct {
	Threshold int64         // the default for the maximum number of slot holders of an event
	Slot      time.Duration // the default length of an entry slot
	// ActiveSeen is how long a slot holder may be without contact before the slot ends, and how long
	// after a data loss a line waits for the slot holders of the lost epoch.
	ActiveSeen time.Duration
	Seen       time.Duration // how long a waiter may be without contact before cleanup parks them
	// Parked is how long a parked place is kept, and how long tickets restore places after Redis
	// lost data.
	Parked time.Duration
	Pause  time.Duration // how long a line recovers after Redis lost data before it admits again
	// Batch is the maximum number of admissions by ticks of all replicas per second of Redis's
	// clock.
	Batch  int64
	Absent time.Duration // the minimum time without contact after which a waiter counts as absent
	// Silence is the time without contact of any visitor, or without a tick, that counts as an outage
	// of the platform. An outage makes nobody absent. At most one outage per SilenceCap counts.
	Silence, SilenceCap time.Duration
}

// DefaultRules are the rules with every setting at its default.
func DefaultRules() Rules {
	return Rules{
		Threshold: 1000, Slot: 600 * time.Second, ActiveSeen: 120 * time.Second, Seen: 600 * time.Second, Parked: 3600 * time.Second,
		Pause: 30 * time.Second, Batch: 100, Absent: 15 * time.Second, Silence: 8 * time.Second, SilenceCap: 300 * time.Second,
	}
}

// PollStep is the poll interval of waiters with fewer than Below people ahead.
type PollStep struct{ Below, Seconds int64 }

// Polls is the table of advised poll intervals. With more people ahead LongestPoll (s) applies.
var Polls = [...]PollStep{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}} //nolint:gochecknoglobals // a constant table

// Poll intervals in seconds, of waiters beyond the table and of slot holders.
const (
	LongestPoll = 60
	activePoll  = 3
)

// PollInterval returns the poll interval, in seconds, advised to a waiter with so many people ahead.
func PollInterval(ahead int64) int64 {
	for _, s := range Polls {
		if ahead < s.Below {
			return s.Seconds
		}
	}
	return LongestPoll
}

// jitter randomizes a poll interval (s), so that visitors who came together do not poll together. The
// result is 1 to 60 s.
func jitter(seconds int64) int64 {
	return min(waits.Spread(seconds, rand.Float64()), LongestPoll) //nolint:gosec // no secret
}

// MaxSilence is how long a waiter with this poll interval (s) may be without contact before
// counting as absent.
func (r Rules) MaxSilence(poll int64) time.Duration {
	return max(r.Absent, time.Duration(2*poll+5)*time.Second)
}

// tokenRenewalMargin is the remaining lifetime below which an entry token is renewed.
const tokenRenewalMargin = 30 * time.Second

// holderUpdateInterval is the minimum age of a holder's stored contact before it is written again,
// well below Rules.ActiveSeen.
const holderUpdateInterval = 10 * time.Second
