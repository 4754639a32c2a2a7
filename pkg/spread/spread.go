// Package spread gives each visitor of a crowd that waits for one instant an own time to ask, so that
// the servers get the rate of requests that they are planned for, whatever the size of the crowd. The
// instant may be the start of a room, the end of a lobby, or a result. Everybody computes the same from
// the same values: nothing is stored.
package spread

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"time"
)

// Over returns over what time the requests of a crowd are spread so that there are rate requests per
// second. It is 0 for a crowd that needs no more than a second, or without a rate.
func Over(crowd int64, rate float64) time.Duration {
	if rate <= 0 || float64(crowd) <= rate {
		return 0
	}
	return time.Duration(min(float64(crowd)/rate, math.MaxInt32) * float64(time.Second))
}

// Instant is what a crowd waits for. The zero value is an instant that has passed for everybody.
type Instant struct {
	Start time.Time
	Over  time.Duration // the spread, see the function Over; 0: everybody may ask at Start
	Round int64         // makes the order of the visitors another one at each instant
}

// lateShare is the part of the time since the start by which the wait of a new id gets shorter.
const lateShare = 4

// TurnOf returns when the visitor with an id may ask: for an id that was made before the start (or a
// zero time, for ids that nobody can make) some time of the spread, chosen by the id.
//
// An id made later waits for the whole spread, so that making ids does not help, less a quarter of the
// time since the start. So the wait ends gradually: who comes later never asks earlier, and those who
// come together are spread as they came, at most at 4/3 of their rate.
func (i Instant) TurnOf(id string, made time.Time) time.Time {
	if made.Unix() < i.Start.Unix() { // ids have whole seconds
		return i.Start.Add(share(id, i.Round, i.Over))
	}
	late := max(0, made.Sub(i.Start))
	rest := i.Over - late/lateShare
	if rest <= 0 {
		return i.Start.Add(late)
	}
	// The visitors of one second are spread until the turns of the next second begin.
	return i.Start.Add((late + rest).Truncate(time.Millisecond) + share(id, i.Round, time.Second-time.Second/lateShare))
}

// share returns a part of a time that is random for each id and round, in whole milliseconds, as times
// are passed on.
func share(id string, round int64, of time.Duration) time.Duration {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte(id), uint64(round))) //nolint:gosec // any bits will do
	fraction := float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
	return time.Duration(fraction * float64(of)).Truncate(time.Millisecond)
}

// The times between two requests of a visitor for something that is overdue: the first, and the longest
// for a small crowd.
const (
	firstAgain = 3 * time.Second
	longAgain  = 15 * time.Second
)

// Again returns after what time a visitor asks again who has asked at now, while what should have come
// at the start is overdue. The later it is, the wider the requests are spread, up to twice the spread:
// then they are half of the planned rate. Pages compute the same (web/src/lib/spread.ts).
func (i Instant) Again(now time.Time) time.Duration {
	return min(firstAgain+3*max(0, now.Sub(i.Start)), max(longAgain, 2*i.Over))
}

// End returns when everybody has asked who follows the advice, if what they wait for came at `came`.
func (i Instant) End(came time.Time) time.Time {
	end := i.Start.Add(i.Over)
	if i.Over == 0 || !came.After(i.Start) {
		return end
	}
	if last := came.Add(i.Again(came)); last.After(end) {
		return last
	}
	return end
}
