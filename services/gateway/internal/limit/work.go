package limit

import (
	"math"
	"math/bits"
	"time"
)

// WorkRule is the proof of work that new visitors of a network owe beyond an allowance. Its cost
// grows with the excess: thousands of people behind the NAT of a carrier are not shut out, while a
// program pays for each of its ids.
type WorkRule struct {
	// Free is how many new visitors of a network owe nothing. A Rate of 0: nobody owes anything.
	Free RateRule
	// MinBits is what the first ones beyond it owe. Each doubling of the excess, from twice Free.Burst
	// on, adds a bit, which is twice the work, up to MaxBits.
	MinBits, MaxBits int
}

// maxRemembered bounds how long the excess of a network can count after its last new visitor.
const maxRemembered = 24 * time.Hour

// maxExcess is the excess at which visitors owe MaxBits. Remembering more would only make honest people
// pay for longer after the end of an attack.
func (w WorkRule) maxExcess() time.Duration {
	excess := float64(w.Free.tolerance()) * math.Exp2(float64(w.MaxBits-w.MinBits))
	return time.Duration(min(excess, float64(maxRemembered)))
}

// owedBits returns the bits that a new visitor owes whose network exceeds the rule. The excess is a
// time, like the rule's tolerance (the time in which its burst is refilled).
func (w WorkRule) owedBits(r RateRule, excess time.Duration) int {
	if excess <= 0 {
		return 0
	}
	doublings := bits.Len64(uint64(excess/r.tolerance())) - 1 //nolint:gosec // not negative
	return min(w.MaxBits, w.MinBits+max(0, doublings))
}
