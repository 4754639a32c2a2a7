// Package waits computes the waiting times and poll intervals that visitors of both waiting rooms
// are told. The vwr service reports them with the position, and the gateways from memory at every
// later poll, so both must compute the same.
package waits

import (
	"math"
	"time"

	"urr.guru/pkg/spread"
)

// EstimatedWait returns in how many whole seconds a position that is `ahead` positions behind the
// serving counter will be served, at the measured rate (positions per second), or at the configured
// rate while nothing is measured. It is 0 for a served position, or when no rate is known.
func EstimatedWait(ahead int64, measured, configured float64) int64 {
	rate := measured
	if rate <= 0 {
		rate = configured
	}
	if ahead <= 0 || rate <= 0 {
		return 0
	}
	return int64(math.Ceil(min(float64(ahead)/rate, math.MaxInt32)))
}

const (
	// longestInterval is the longest advised interval before it is spread, in seconds. pollsPerWait is
	// the number of intervals in an estimated wait.
	longestInterval = 60
	pollsPerWait    = 20
	// LongestPoll is the longest time from one poll of a waiting visitor to the next, spread: how late a
	// visitor may learn that the counter has passed the position.
	LongestPoll = 67 * time.Second
)

// NextPoll returns the advised poll interval in whole seconds: a twentieth of the estimated wait, at
// least about 2 near the serving counter and 5, 10 and 15 farther away, and at most about 60. wait is 0
// while there is no estimate, as before an opening, which nobody must miss. spread is a random number
// in [0, 1); see Spread. The page of the waiting room computes the same (web/src/room/interval.ts).
func NextPoll(ahead, wait int64, spread float64) int64 {
	return Spread(min(longestInterval, max(pollSeconds(ahead), wait/pollsPerWait)), spread)
}

func pollSeconds(ahead int64) int64 {
	switch {
	case ahead <= 500:
		return 2
	case ahead <= 2_000:
		return 5
	case ahead <= 10_000:
		return 10
	default:
		return 15
	}
}

// lobbyPoll is the poll interval of visitors for whom nothing happens soon. They poll since an operator
// may end the wait early.
const lobbyPoll = 30 * time.Second

// LobbyPoll returns when a visitor should ask what a room that has not opened yet, or whose shuffle
// is overdue, has for them: at their turn after the opening, or after it some time that grows. Poll
// is the advised interval until the next poll in whole seconds, which is shorter long before the
// opening. jitter is a random number in [0, 1).
func LobbyPoll(opening spread.Instant, turn, now time.Time, jitter float64) (asksAt time.Time, poll int64) {
	if asksAt = turn; !asksAt.After(now) {
		asksAt = now.Add(opening.Again(now))
	}
	left, far := asksAt.Sub(now), max(lobbyPoll, 2*opening.Over) // the polls of all are half of the planned rate
	poll = max(1, int64(math.Ceil(left.Seconds())))
	if left > far {
		poll = min(poll, Spread(int64(far/time.Second), jitter))
	}
	return asksAt, poll
}
