package plan

import (
	"fmt"
	"math"
)

// Number formats a value with three digits: at most two decimals, and none from 100 on.
func Number(v float64) string {
	switch {
	case v == 0:
		return "0"
	case math.Abs(v) < 0.005:
		return "< 0.01"
	case math.Abs(v) >= 99.95:
		return Thousands(int64(math.Round(v)))
	case math.Abs(v) >= 9.995:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// Thousands formats a number with commas.
func Thousands(n int64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", Thousands(n/1000), n%1000)
}
