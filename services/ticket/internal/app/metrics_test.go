package app

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
)

// soldPlaces returns the values of the metric urr_sold for the events of this test, by event id.
func soldPlaces(t *testing.T) map[string]float64 {
	t.Helper()
	places := metricstest.ByLabel(t, "urr_sold", "event")
	maps.DeleteFunc(places, func(event string, _ float64) bool { return !strings.HasPrefix(event, "gauged-") })
	return places
}

func TestSoldGauge(t *testing.T) {
	t.Parallel()
	counts, failure := map[string]int64{"gauged-a": 600, "gauged-b": 0}, error(nil)
	count := func(context.Context, int) (map[string]int64, error) { return counts, failure }
	g := &soldGauge{count: count, log: slog.New(slog.DiscardHandler)}
	g.update(t.Context())
	require.Equal(t, map[string]float64{"gauged-a": 600, "gauged-b": 0}, soldPlaces(t))

	counts, failure = nil, errors.New("no database")
	g.update(t.Context())
	require.Equal(t, map[string]float64{"gauged-a": 600, "gauged-b": 0}, soldPlaces(t), "the last figures stay")

	counts, failure = map[string]int64{"gauged-b": 3}, nil
	g.update(t.Context())
	require.Equal(t, map[string]float64{"gauged-b": 3}, soldPlaces(t), "what is long over leaves no series behind")
}
