package waits

import "math"

// Spread changes an advised poll interval by up to ±10 % and rounds it up or down at random, so
// that visitors who came at once do not keep polling at once; rounding to the nearest second would
// undo the spreading of short intervals. spread is a random number in [0, 1). The mean of
// the results is the advised interval; a result is at least 1.
func Spread(seconds int64, spread float64) int64 {
	s := float64(seconds)
	return max(1, int64(math.Floor(0.9*s+(0.2*s+1)*spread)))
}
