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
		{0, 1, 2, 3}, {1, 1, 2, 3}, {500, 1, 2, 3}, {501, 4, 5, 6}, {2_000, 4, 5, 6}, {2_001, 9, 10, 11}, {10_000, 9, 10, 11},
		{10_001, 13, 15, 17}, {1 << 40, 13, 15, 17},
	} {
		for spread, want := range map[float64]int64{0: c.low, 0.5: c.middle, 0.999: c.high} {
			require.Equal(t, want, tier1.NextPoll(c.ahead, spread), "%d ahead, spread %v", c.ahead, spread)
		}
	}
}
