package tier1_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/tier1"
)

func TestEstimatedWait(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead                int64
		measured, configured float64
		want                 int64
	}{
		{0, 0, 50, 0}, {-3, 0, 50, 0}, {1, 0, 50, 1}, {100, 0, 50, 2}, {101, 0, 50, 3}, {100, 25, 50, 4}, {101, 10, 50, 11},
		{100, 0, 0, 0}, {1, 1e-12, 50, math.MaxInt32}, {1 << 60, 1e-9, 0, math.MaxInt32},
	} {
		require.Equal(t, c.want, tier1.EstimatedWait(c.ahead, c.measured, c.configured), "%+v", c)
	}
}

func TestNextPoll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead             int64
		low, middle, high int64
	}{
		{0, 2, 2, 2}, {1, 2, 2, 2}, {500, 2, 2, 2}, {501, 5, 5, 5}, {2_000, 5, 5, 5}, {2_001, 9, 10, 11}, {10_000, 9, 10, 11},
		{10_001, 14, 15, 16}, {1 << 40, 14, 15, 16},
	} {
		for spread, want := range map[float64]int64{0: c.low, 0.5: c.middle, 0.999: c.high} {
			require.Equal(t, want, tier1.NextPoll(c.ahead, spread), "%d ahead, spread %v", c.ahead, spread)
		}
	}
}
