package waits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waits"
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
		require.Equal(t, c.want, waits.EstimatedWait(c.ahead, c.measured, c.configured), "%+v", c)
	}
}

func TestNextPoll(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		ahead, wait       int64
		low, middle, high int64
	}{
		{0, 0, 1, 2, 3}, {1, 0, 1, 2, 3}, {500, 0, 1, 2, 3}, {501, 0, 4, 5, 6}, {2_000, 0, 4, 5, 6}, {2_001, 0, 9, 10, 11},
		{10_000, 0, 9, 10, 11}, {10_001, 0, 13, 15, 17}, {1 << 40, 0, 13, 15, 17},
		{500, 59, 1, 2, 3}, {500, 100, 4, 5, 6}, {10_000, 200, 9, 10, 11}, {50_000, 300, 13, 15, 17}, {50_000, 600, 27, 30, 33},
		{50_000, 1_200, 54, 60, 66}, {1 << 40, 1 << 40, 54, 60, 66},
	} {
		for spread, want := range map[float64]int64{0: c.low, 0.5: c.middle, 0.999: c.high} {
			got := waits.NextPoll(c.ahead, c.wait, spread)
			require.Equal(t, want, got, "%d ahead, %d s, spread %v", c.ahead, c.wait, spread)
			require.Less(t, time.Duration(got)*time.Second, waits.LongestPoll)
		}
	}
}

// Visitors in a lobby poll again at the start, not before, and spread over some seconds.
func TestLobbyPoll(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_500)
	for _, tt := range []struct {
		left      time.Duration
		low, high int64
	}{
		{time.Hour, 27, 33},
		{30 * time.Second, 27, 33},
		{29 * time.Second, 30, 32},
		{10 * time.Second, 11, 13},
		{2 * time.Second, 2, 4},
		{-time.Minute, 2, 4},
	} {
		starts := now.Add(tt.left).UnixMilli()
		require.GreaterOrEqual(t, waits.LobbyPoll(starts, now, 0), tt.low, tt.left)
		require.LessOrEqual(t, waits.LobbyPoll(starts, now, 0.999), tt.high, tt.left)
	}
}
