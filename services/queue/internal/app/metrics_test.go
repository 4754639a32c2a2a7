package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
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
	m.Line("metered", 7, 3, false)
	m.Admitted("metered", 0)
	require.Equal(t, map[string]float64{"urr_queue_waiting": 7, "urr_queue_active": 3, "urr_queue_selling": 0}, figures(t, "metered"))
	m.Admitted("metered", 2)
	m.Line("metered", 4, 5, true)
	m.Admitted("metered", 1)
	m.Kept("metered", 2)
	require.Equal(t, map[string]float64{
		"urr_queue_waiting": 4, "urr_queue_active": 5, "urr_queue_selling": 1, "urr_queue_kept": 2, "urr_admissions_total": 3,
	}, figures(t, "metered"))
	m.Forget("metered")
	require.Empty(t, figures(t, "metered"), "an event that is over leaves no series behind")
}
