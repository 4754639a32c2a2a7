package limit

import (
	"math"
	"math/bits"
	"time"
)

// WorkRule says how much proof of work new visitors of a network owe if there are more than Free.
// It grows with their number: thousands of people behind the NAT of a carrier are not shut out,
// while a program pays for each of its ids.
type WorkRule struct {
	// Free is how many new visitors of a network owe nothing. With a Rate of 0 nobody owes anything.
	Free RateRule
	// MinBits is what the first visitors beyond Free owe. From an excess of twice Free.Burst on, each
	// doubling of the excess adds a bit, which doubles the work, up to MaxBits.
	MinBits, MaxBits int
	// HalfLife is the time in which half of the excess is forgotten, so that people behind the same
	// NAT do not pay for hours after an attack.
	HalfLife time.Duration
}

// maxExcess returns the excess at which visitors owe MaxBits. No more than this is remembered,
// since honest people would then pay for longer after the end of an attack.
func (w WorkRule) maxExcess() time.Duration {
	return time.Duration(min(float64(w.Free.tolerance())*math.Exp2(float64(w.MaxBits-w.MinBits)), math.MaxInt64/2))
}

// countByMeter counts a request by a meter. ahead is how far the stored time of the key is in the
// future. It returns the same after the request, and by how much the rule is then exceeded.
//
// E is the excess as a time, H the half-life, and u = H / ln 2. While time passes, the even refill
// subtracts 1 and the half-life subtracts E/u: dE/dt = -1 - E/u. So E reaches 0 after the time u
// ln(1+E/u). The stored time is when E has reached 0 and the whole burst is allowed again.
func (c keyCheck) countByMeter(ahead time.Duration) (newAhead, newExcess time.Duration) {
	unit := float64(c.halfLife) / math.Ln2
	excess := float64(ahead - c.rule.tolerance())
	if excess > 0 {
		excess = unit * math.Expm1(excess/unit)
	}
	excess = min(excess+float64(c.rule.interval()), float64(c.maxExcess))
	left := excess
	if left > 0 {
		left = unit * math.Log1p(left/unit)
	}
	return c.rule.tolerance() + time.Duration(math.Round(left)), time.Duration(math.Round(excess))
}

// owedBits returns how many bits of work a new visitor owes whose network exceeds the rule by
// excess. excess is a time, as is the tolerance of the rule: the time in which its burst is
// refilled.
func (w WorkRule) owedBits(r RateRule, excess time.Duration) int {
	if excess <= 0 {
		return 0
	}
	// Rounded, since the excess of a meter is inexact by some microseconds.
	doublings := bits.Len64(uint64(excess.Round(time.Millisecond)/r.tolerance())) - 1 //nolint:gosec // not negative
	return min(w.MaxBits, w.MinBits+max(0, doublings))
}
