package app

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// Both counters of manual refunds exist from the start, so that the first refund is an increase.
func TestCountersExistFromTheStart(t *testing.T) {
	t.Parallel()
	observer()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	var extents []string
	for _, f := range families {
		if f.GetName() == "urr_payment_refunds_by_hand_total" {
			for _, m := range f.GetMetric() {
				extents = append(extents, m.GetLabel()[0].GetValue())
			}
		}
	}
	require.ElementsMatch(t, []string{"part", "whole"}, extents)
}
