package planned_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	"urr.guru/pkg/telemetry/metricstest"
)

// The needs appear half an hour before the opening and go once the crowd has come.
func TestNeedsOfOpenings(t *testing.T) {
	opening := time.Date(2042, 3, 7, 11, 0, 0, 0, time.UTC)
	var failure error
	now := opening
	e := &planned.Exporter{Kind: plan.Sale, Now: func() time.Time { return now }, Find: func(_ context.Context, since, until time.Time) ([]planned.Opening, error) {
		require.Equal(t, []time.Time{now.Add(-24 * time.Hour), now.Add(30 * time.Minute)}, []time.Time{since, until})
		crowd := plan.Expected{Visitors: 1_000_000, WithinSeconds: 120}
		return []planned.Opening{{EventID: "a", At: opening, Expected: crowd}, {EventID: "b", At: opening.Add(time.Hour), Expected: crowd}}, failure
	}}
	needs := func(event, process string) float64 {
		sum, _ := metricstest.MetricSum(t, "urr_planned_cores", map[string]string{"event": event, "process": process})
		return sum
	}
	f, err := plan.Kept()
	require.NoError(t, err)
	want := f.ServiceCores(plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 1_000_000, WithinSeconds: 120}})
	require.Greater(t, want["gateway"], 1.0)
	for at, shown := range map[time.Duration]bool{-31 * time.Minute: false, -30 * time.Minute: true, 2 * time.Minute: true, 3 * time.Minute: false} {
		now = opening.Add(at)
		require.NoError(t, e.Update(t.Context()))
		if shown {
			require.InDelta(t, want["gateway"], needs("a", "gateway"), 1e-9, at)
			require.InDelta(t, want["vwr"], needs("a", "vwr"), 1e-9, at)
		} else {
			require.Zero(t, needs("a", "gateway"), at)
		}
		require.Zero(t, needs("b", "gateway"), at)
	}
	now = opening
	require.NoError(t, e.Update(t.Context()))
	failure = errors.New("away")
	require.ErrorIs(t, e.Update(t.Context()), failure)
	require.NotZero(t, needs("a", "gateway"), "the last values stay")
}
