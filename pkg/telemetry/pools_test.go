package telemetry_test

import (
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry"
)

// pool returns the exported figures of a pool, by the metric's name and the state.
func pool(t *testing.T, name string) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := make(map[string]string)
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["pool"] == name {
				values[f.GetName()+labels["state"]] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestWatchPool(t *testing.T) {
	t.Parallel()
	stop := telemetry.WatchPool("watched", func() telemetry.Pool {
		return telemetry.Pool{Max: 16, Used: 15, Idle: 1, Acquired: 100, TimedOut: 2, Waited: 1500 * time.Millisecond}
	})
	stopSecond := telemetry.WatchPool("watched", func() telemetry.Pool { return telemetry.Pool{Max: 4, Idle: 2, Acquired: 7} })
	require.Equal(t, map[string]float64{
		"urr_pool_connections_max": 20, "urr_pool_connectionsused": 15, "urr_pool_connectionsidle": 3,
		"urr_pool_acquires_total": 107, "urr_pool_timeouts_total": 2, "urr_pool_wait_seconds_total": 1.5,
	}, pool(t, "watched"), "pools of one name are added")
	stopSecond()
	require.InDelta(t, 16, pool(t, "watched")["urr_pool_connections_max"], 0)
	stop()
	require.Empty(t, pool(t, "watched"), "a closed pool leaves no series behind")
}

// The clock is read at each scrape.
func TestClock(t *testing.T) {
	t.Parallel()
	clock := func() float64 {
		families, err := prometheus.DefaultGatherer.Gather()
		require.NoError(t, err)
		for _, f := range families {
			if f.GetName() == "urr_clock_timestamp_seconds" {
				return f.GetMetric()[0].GetGauge().GetValue()
			}
		}
		return 0
	}
	first := clock()
	require.Positive(t, first)
	require.Greater(t, clock(), first)
}
