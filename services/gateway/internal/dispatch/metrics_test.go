package dispatch

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// The alert for the latency objective reads the histogram's bucket of 0.8192 s, so it must exist.
func TestHistogramHasBucketOfObjective(t *testing.T) {
	t.Parallel()
	requestSeconds.WithLabelValues("objective", "ok").Observe(1)
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	var bounds []float64
	for _, f := range families {
		if f.GetName() == "urr_http_seconds" {
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
		}
	}
	require.Contains(t, bounds, 0.8192)
}
