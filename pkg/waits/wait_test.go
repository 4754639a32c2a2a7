package waits_test

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/spread"
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

// Visitors in a lobby poll at their turn, seldom long before it, and more and more seldom when the room
// is late.
func TestLobbyPoll(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_800_000_000_500)
	for _, tt := range []struct {
		left, over   time.Duration
		asks         time.Duration // from now; for a crowd that is spread the earliest
		lowest, most int64
	}{
		{time.Hour, 0, time.Hour, 27, 33},
		{29 * time.Second, 0, 29 * time.Second, 29, 29},
		{500 * time.Millisecond, 0, 500 * time.Millisecond, 1, 1},
		{-time.Second, 0, 6 * time.Second, 6, 6},
		{-time.Minute, 0, 15 * time.Second, 15, 15},
		{time.Hour, 100 * time.Second, time.Hour, 180, 220},
		{10 * time.Second, 100 * time.Second, 10 * time.Second, 10, 110},
		{-10 * time.Minute, 100 * time.Second, 200 * time.Second, 200, 200},
	} {
		opening := spread.Instant{Start: now.Add(tt.left), Over: tt.over}
		for _, jitter := range []float64{0, 0.5, 0.999} {
			asksAt, poll := waits.LobbyPoll(opening, opening.TurnOf("visitor", time.Time{}), now, jitter)
			require.GreaterOrEqual(t, asksAt.Sub(now), tt.asks, tt)
			require.LessOrEqual(t, asksAt.Sub(now), tt.asks+tt.over, tt)
			require.GreaterOrEqual(t, poll, tt.lowest, tt)
			require.LessOrEqual(t, poll, tt.most, tt)
		}
	}
}
