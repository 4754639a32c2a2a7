package crowd

import (
	"math/rand/v2"
	"time"
)

// Behaviour is how one visitor behaves.
type Behaviour string

// The crowd's behaviours.
const (
	Buys         Behaviour = "buys"
	LeavesRoom   Behaviour = "leaves_tier1"  // closes the page in the waiting room
	LeavesLine   Behaviour = "leaves_line"   // closes the page in the line
	LeavesInside Behaviour = "leaves_inside" // is admitted and never acts
	DropsHold    Behaviour = "drops_hold"    // holds seats and abandons them
	ComesBack    Behaviour = "comes_back"    // pauses for a while, then resumes
	SharesPass   Behaviour = "shares_pass"   // gives the tier-1 pass to a friend
	Forges       Behaviour = "forges"        // tries forged and stolen passes
	ClicksTwice  Behaviour = "clicks_twice"  // sends reserve and confirm twice concurrently
	IsDeclined   Behaviour = "is_declined"   // the first card is declined, the second works
)

// shares of the crowd in percent; the rest buy without special behaviour.
var shares = []struct {
	behaviour Behaviour
	percent   int
}{
	{LeavesRoom, 3}, {LeavesLine, 3}, {LeavesInside, 2}, {DropsHold, 2}, {ComesBack, 5},
	{SharesPass, 3}, {Forges, 3}, {ClicksTwice, 5}, {IsDeclined, 3},
}

// Behaviours assigns behaviours to n visitors: exact shares, in random order.
func Behaviours(n int, rng *rand.Rand) []Behaviour {
	out := make([]Behaviour, 0, n)
	for _, s := range shares {
		for range n * s.percent / 100 {
			out = append(out, s.behaviour)
		}
	}
	for len(out) < n {
		out = append(out, Buys)
	}
	rng.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// Durations of a visitor's actions.
const (
	thinkSeats    = 1500 * time.Millisecond // looking at the map before choosing
	thinkPayment  = 1000 * time.Millisecond // at the checkout
	mapRetryDelay = 2 * time.Second         // between two loads of a map without free seats
	awayAtLeast   = 18 * time.Second        // longer than a waiter counts as present
	awaySpread    = 8 * time.Second
	paymentPoll   = 1 * time.Second
	heartbeat     = 10 * time.Second // the interval of the seat page
)

// jitter varies a duration by ±30 %.
func jitter(rng *rand.Rand, d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.7 + 0.6*rng.Float64()))
}

// paymentKey selects the provider's behaviour: most charges succeed immediately, some only by a
// webhook.
func paymentKey(rng *rand.Rand, id string) string {
	if rng.IntN(100) < 4 {
		return "late-" + id
	}
	return "ok-" + id
}
