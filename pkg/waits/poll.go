package waits

import "math"

// Spread changes an advised poll interval by up to ±10 % and rounds it up or down at random, so
// that visitors who came together do not keep polling together. Rounding to the nearest second
// would undo that for short intervals. spread is a random number in [0, 1). The results are at
// least 1, and their mean is the advised interval.
func Spread(seconds int64, spread float64) (pollSeconds int64) {
	s := float64(seconds)
	return max(1, int64(math.Floor(0.9*s+(0.2*s+1)*spread)))
}
