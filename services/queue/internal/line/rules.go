// Package line is tier 2, the waiting line of each event. The store, in Redis, assigns places and
// slots atomically. This package decides which calls of the store to make, and makes answers to
// visitors from the results. It keeps nothing only in memory that must not be lost.
package line

import (
	"math/rand/v2"
	"time"

	"urr.guru/pkg/waits"
)

// Rules are the constants of all lines. The store writes them into its scripts.
type Rules struct {
	Threshold int64         // the default for the maximum number of slot holders of an event
	Slot      time.Duration // the default length of an entry slot
	// ActiveSeen is how long a slot holder may be without contact before the slot ends. It is also how
	// long a line waits for the slot holders of the lost epoch after a loss of data.
	ActiveSeen time.Duration
	Seen       time.Duration // how long a waiter may be without contact before cleanup parks the place
	// Parked is how long a parked place is kept. It is also how long queue tickets restore places
	// after a loss of data.
	Parked time.Duration
	Pause  time.Duration // how long a line recovers after Redis lost data before it admits again
	// Batch is the most admissions per second of Redis's clock, by the ticks of all replicas together.
	Batch  int64
	Absent time.Duration // a waiter counts as absent after at least this time without contact
	// Silence is the time without contact of any visitor, or without a tick, that counts as an outage
	// of the platform. An outage makes nobody absent. Within SilenceCap only one outage counts.
	Silence, SilenceCap time.Duration
}

// DefaultRules returns the rules in which every setting has its default.
func DefaultRules() Rules {
	return Rules{
		Threshold: 1000, Slot: 600 * time.Second, ActiveSeen: 120 * time.Second, Seen: 600 * time.Second, Parked: 3600 * time.Second,
		Pause: 30 * time.Second, Batch: 100, Absent: 15 * time.Second, Silence: 8 * time.Second, SilenceCap: 300 * time.Second,
	}
}

// PollStep is the poll interval of waiters with fewer than Below people ahead of them.
type PollStep struct{ Below, Seconds int64 }

// Polls is the table of advised poll intervals. Beyond it, waiters poll every LongestPoll seconds.
var Polls = [...]PollStep{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}} //nolint:gochecknoglobals // a constant table

// Poll intervals in seconds: of waiters beyond the table Polls, and of slot holders.
const (
	LongestPoll = 60
	activePoll  = 3
)

// PollInterval returns the poll interval, in seconds, for a waiter with so many people ahead.
func PollInterval(ahead int64) int64 {
	for _, s := range Polls {
		if ahead < s.Below {
			return s.Seconds
		}
	}
	return LongestPoll
}

// jitter changes a poll interval (s) at random, so that visitors who came together do not poll
// together. The result is 1 to 60 s.
func jitter(seconds int64) int64 {
	return min(waits.Spread(seconds, rand.Float64()), LongestPoll) //nolint:gosec // no secret
}

// MaxSilence is how long a waiter may be without contact before counting as absent. It is longer
// than two poll intervals (s).
func (r Rules) MaxSilence(poll int64) time.Duration {
	return max(r.Absent, time.Duration(2*poll+5)*time.Second)
}

// tokenRenewalMargin is the remaining lifetime below which an entry token is renewed.
const tokenRenewalMargin = 30 * time.Second

// holderUpdateInterval is the age at which a holder's stored contact is written again. It is well
// below Rules.ActiveSeen.
const holderUpdateInterval = 10 * time.Second
