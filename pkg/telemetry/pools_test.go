package telemetry_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry"
	"urr.guru/pkg/telemetry/metricstest"
)

func TestWatchPool(t *testing.T) {
	t.Parallel()
	stop := telemetry.WatchPool("watched", func() telemetry.Pool {
		return telemetry.Pool{Max: 16, Used: 15, Idle: 1, Acquired: 100, TimedOut: 2, Waited: 1500 * time.Millisecond}
	})
	stopSecond := telemetry.WatchPool("watched", func() telemetry.Pool { return telemetry.Pool{Max: 4, Idle: 2, Acquired: 7} })
	require.Equal(t, map[string]float64{
		"urr_pool_connections_max": 20, "urr_pool_connections": 18,
		"urr_pool_acquires_total": 107, "urr_pool_timeouts_total": 2, "urr_pool_wait_seconds_total": 1.5,
	}, metricstest.ByName(t, "pool", "watched"), "pools of one name are added")
	used, _ := metricstest.MetricSum(t, "urr_pool_connections", map[string]string{"pool": "watched", "state": "used"})
	require.InDelta(t, 15, used, 0)
	stopSecond()
	require.InDelta(t, 16, metricstest.ByName(t, "pool", "watched")["urr_pool_connections_max"], 0)
	stop()
	require.Empty(t, metricstest.ByName(t, "pool", "watched"), "a closed pool leaves no series behind")
}

// The clock is read at each scrape.
func TestClock(t *testing.T) {
	t.Parallel()
	clock := func() float64 {
		now, _ := metricstest.MetricSum(t, "urr_clock_timestamp_seconds", nil)
		return now
	}
	first := clock()
	require.Positive(t, first)
	require.Greater(t, clock(), first)
}
