// Package poll keeps the polls of visitors apart.
package poll

import "math"

// Spread moves an advised poll by up to ±10 % and rounds it up or down by chance, so that a crowd
// that came at once does not poll at once for ever: rounding to the nearest second would undo the
// spreading of short polls. spread is a random number in [0, 1). The mean stays seconds; the result
// is at least 1.
func Spread(seconds int64, spread float64) int64 {
	s := float64(seconds)
	return max(1, int64(math.Floor(0.9*s+(0.2*s+1)*spread)))
}
