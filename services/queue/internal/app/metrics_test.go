package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/services/queue/internal/line"
)

// figures are the values of an event, by the metric's name.
func figures(t *testing.T, event string) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 1 && l[0].GetName() == "event" && l[0].GetValue() == event {
				values[f.GetName()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
	}
	return values
}

func TestMeter(t *testing.T) {
	t.Parallel()
	m := meter{}
	m.Line("metered", line.Figures{Waiting: 7, Active: 3, Threshold: 10, Epoch: 1_800_000_000_500_000, Paused: true, Silent: true})
	m.Admitted("metered", 0)
	require.Equal(t, map[string]float64{
		"urr_queue_waiting": 7, "urr_queue_active": 3, "urr_queue_threshold": 10, "urr_queue_kept": 0, "urr_queue_selling": 0,
		"urr_queue_paused": 1, "urr_queue_silent": 1, "urr_queue_epoch_timestamp_seconds": 1_800_000_000.5, "urr_queue_failing": 0,
		"urr_admissions_total": 0,
	}, figures(t, "metered"), "the counter starts at 0")
	m.Admitted("metered", 2)
	m.Line("metered", line.Figures{Waiting: 4, Active: 5, Threshold: 20, Kept: 2, Epoch: 1_800_000_001_000_000, Selling: true})
	m.Admitted("metered", 1)
	require.Equal(t, map[string]float64{
		"urr_queue_waiting": 4, "urr_queue_active": 5, "urr_queue_threshold": 20, "urr_queue_kept": 2, "urr_queue_selling": 1,
		"urr_queue_paused": 0, "urr_queue_silent": 0, "urr_queue_epoch_timestamp_seconds": 1_800_000_001, "urr_queue_failing": 0,
		"urr_admissions_total": 3,
	}, figures(t, "metered"))
	m.Failed("metered")
	require.Equal(t, map[string]float64{"urr_queue_failing": 1, "urr_admissions_total": 3}, figures(t, "metered"),
		"figures that are not known are not reported")
	m.Forget("metered")
	require.Empty(t, figures(t, "metered"), "an event that is over leaves no series behind")
}
