package limit

import (
	"math"
	"math/bits"
	"time"
)

// Work is the proof of work that new visitors of a network owe beyond an allowance. Its cost grows
// with the excess: a network with thousands of people, behind the NAT of a carrier, is not shut out,
// while a program pays for each of its ids.
type Work struct {
	// Free is how many new visitors of a network owe nothing. A Rate of 0: nobody owes anything.
	Free Rule
	// MinBits is what the first ones beyond it owe. From an excess of twice Free.Burst on it is a bit
	// more, which is twice the work, and again at each doubling, up to MaxBits.
	MinBits, MaxBits int
}

// maxRemembered bounds how long the excess of a network can count after its last new visitor.
const maxRemembered = 24 * time.Hour

// most is the excess that is remembered: as much as makes visitors owe MaxBits. More would only make
// honest people pay for longer after the end of an attack.
func (w Work) most() time.Duration {
	most := float64(w.Free.tolerance()) * math.Exp2(float64(w.MaxBits-w.MinBits))
	return time.Duration(min(most, float64(maxRemembered)))
}

// bits returns what a new visitor owes whose network is so far beyond the rule. The tolerance of a
// rule is the time in which its burst is refilled, so the excess relates to the burst as beyond to it.
func (w Work) bits(r Rule, beyond time.Duration) int {
	if beyond <= 0 {
		return 0
	}
	doublings := bits.Len64(uint64(beyond/r.tolerance())) - 1 //nolint:gosec // not negative
	return min(w.MaxBits, w.MinBits+max(0, doublings))
}
