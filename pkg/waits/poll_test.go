package waits_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waits"
)

// Even the shortest intervals are spread and keep their mean.
func TestSpreadOfEveryPollKeepsItsMean(t *testing.T) {
	t.Parallel()
	const samples = 10_000
	for _, seconds := range []int64{1, 2, 3, 5, 10, 15, 30, 60} {
		var sum int64
		seen := map[int64]int{}
		for i := range samples {
			got := waits.Spread(seconds, (float64(i)+0.5)/samples)
			require.GreaterOrEqual(t, got, int64(1))
			seen[got]++
			sum += got
		}
		require.Greater(t, len(seen), 1, "polls of %d s stay together", seconds)
		require.InDelta(t, float64(seconds), float64(sum)/samples, 0.1)
	}
}
