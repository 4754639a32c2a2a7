package app

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
)

// Both counters of refunds by hand are 0 at the start, so that the first refund is an increase.
func TestCountersExistFromTheStart(t *testing.T) {
	t.Parallel()
	observer()
	require.ElementsMatch(t, []string{"part", "whole"}, slices.Collect(maps.Keys(metricstest.ByLabel(t, "urr_payment_refunds_by_hand_total", "extent"))))
}
