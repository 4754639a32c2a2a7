// Package waits computes the waiting times and poll intervals that visitors of both waiting rooms
// are told. The vwr service reports them with the position, and the gateways from memory at every
// later poll, so both must compute the same.
package waits

import (
	"math"
	"time"
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

// Poll intervals in a lobby, in seconds: the longest, and the one shortly before the start.
const (
	farPoll  = 30
	nearPoll = 3
)

// LobbyPoll returns the advised poll interval, in seconds, for a visitor in a lobby that ends at
// startsAt (epoch ms). Visitors poll when the room opens, spread over some seconds, and a few times
// before, since an operator may open the room early. spread is a random number in [0, 1).
func LobbyPoll(startsAt int64, now time.Time, spread float64) int64 {
	secondsLeft := (startsAt-now.UnixMilli())/1000 + 1
	switch {
	case secondsLeft <= nearPoll:
		return Spread(nearPoll, spread)
	case secondsLeft > farPoll:
		return Spread(farPoll, spread)
	default:
		return secondsLeft + int64(spread*nearPoll)
	}
}
