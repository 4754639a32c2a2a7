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

// Longest is the longest spread of a room: nobody is served before all who waited have asked.
const Longest = 10 * time.Minute

// lateShare is the part of the time since the start by which the spread of new ids gets shorter.
const lateShare = 6

// TurnOf returns when the visitor with an id may ask: for an id that was made before the start (or a
// zero time, for ids that nobody can make) some time of the spread, chosen by the id.
//
// An id that was made `late` after the start asks after all these, within a spread of its own,
// which gets shorter with time until nobody waits any more:
//
//	from Start + Over + 5/6·late, for Over − late/6
//
// So another crowd that comes after the start is spread like the first one, a steady stream asks at
// most at 1.34 (6·ln 5/4) of its rate, and a later id with the same hash never asks earlier.
func (i Instant) TurnOf(id string, made time.Time) time.Time {
	if made.Unix() < i.Start.Unix() { // ids have whole seconds
		return i.Start.Add(share(id, i.Round, i.Over))
	}
	late := max(0, made.Sub(i.Start))
	if late/lateShare >= i.Over {
		return i.Start.Add(late)
	}
	late += share(id, ^i.Round, time.Second) // when in its second it may have been made
	turn := i.Over + late - late/lateShare + share(id, i.Round, max(0, i.Over-late/lateShare))
	return i.Start.Add(turn.Truncate(time.Millisecond))
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
