// Package line is tier 2: the waiting line of each event. It decides who asks what of the store (which decides places and slots,
// atomically), and turns what the store says into what a visitor is told. It keeps in memory only what can be lost.
package line

import (
	"math/rand/v2"
	"time"

	"urr.guru/pkg/poll"
)

// Rules are the line's constants, the same for every event. The store renders them into its scripts, so that there is one place where
// they stand.
type Rules struct {
	// Threshold is how many may be inside at once in an event without a setting of its own.
	Threshold int64
	// Slot is how long an entry slot lasts in an event without a setting of its own.
	Slot time.Duration
	// ActiveSeen is how long a slot's holder may be silent before the slot ends; also how long holders of a lost epoch are waited for.
	ActiveSeen time.Duration
	// Seen is how long a waiter may be silent before cleanup parks them.
	Seen time.Duration
	// Parked is how long a parked place is kept, and how long after the loss of Redis tickets give places back.
	Parked time.Duration
	// Pause is how long a line recovers after the loss of Redis before it admits again.
	Pause time.Duration
	// Batch is the most that one tick (a second of Redis's clock) admits by the workers of all replicas together.
	Batch int64
	// Absent is the shortest silence after which a waiter counts as absent.
	Absent time.Duration
	// Silence is the shortest silence of everybody, or pause of all workers, that counts as our own outage; at most one per SilenceCap.
	Silence, SilenceCap time.Duration
}

// DefaultRules are the rules with every setting at its default.
func DefaultRules() Rules {
	return Rules{
		Threshold: 1000, Slot: 600 * time.Second, ActiveSeen: 120 * time.Second, Seen: 600 * time.Second, Parked: 3600 * time.Second,
		Pause: 30 * time.Second, Batch: 100, Absent: 15 * time.Second, Silence: 8 * time.Second, SilenceCap: 300 * time.Second,
	}
}

// PollStep advises Seconds to whoever has fewer than Below people ahead.
type PollStep struct{ Below, Seconds int64 }

// Polls is the table of advised polls, and LongestPoll what lies beyond it (s).
var Polls = [...]PollStep{{1000, 1}, {5000, 5}, {10_000, 10}, {100_000, 30}} //nolint:gochecknoglobals // a constant table

// Polls that do not depend on the place, in seconds: beyond the table, and inside.
const (
	LongestPoll = 60
	activePoll  = 3
)

// Poll is the advised poll in seconds of who has ahead people before them.
func Poll(ahead int64) int64 {
	for _, s := range Polls {
		if ahead < s.Below {
			return s.Seconds
		}
	}
	return LongestPoll
}

// spread moves a poll by chance, so that those who came together do not poll together; the result is
// 1 to 60 seconds.
func spread(seconds int64) int64 {
	return min(poll.Spread(seconds, rand.Float64()), LongestPoll) //nolint:gosec // no secret
}

// Patience is how long one whose advised poll is so many seconds may be silent before counting as absent.
func (r Rules) Patience(poll int64) time.Duration {
	return max(r.Absent, time.Duration(2*poll+5)*time.Second)
}

// renewBelow is the remaining life of an entry token below which it is renewed.
const renewBelow = 30 * time.Second

// activeTouch is how old a holder's last contact must be to be written again; a third of what ends a slot would do.
const activeTouch = 10 * time.Second
