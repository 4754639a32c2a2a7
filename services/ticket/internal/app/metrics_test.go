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
	"urr.guru/services/ticket/internal/event"
)

// soldPlaces returns the values of the metric urr_sold for the events of this test, by event id.
func soldPlaces(t *testing.T) map[string]float64 {
	t.Helper()
	places := metricstest.ByLabel(t, "urr_sold", "event")
	maps.DeleteFunc(places, func(id string, _ float64) bool { return !strings.HasPrefix(id, "gauged-") })
	return places
}

func TestPlacesGauge(t *testing.T) {
	t.Parallel()
	counts, failure := map[string]event.Places{"gauged-a": {Sold: 600, House: 2, Returning: 1, Selling: true}, "gauged-b": {House: 9}}, error(nil)
	count := func(context.Context, int) (map[string]event.Places, error) { return counts, failure }
	g := &placesGauge{count: count, log: slog.New(slog.DiscardHandler)}
	g.update(t.Context())
	require.Equal(t, map[string]float64{"gauged-a": 600, "gauged-b": 0}, soldPlaces(t))
	require.Equal(t, map[string]float64{"house": 2, "returning": 1}, metricstest.ByLabel(t, "urr_off_sale", "what"))

	counts["gauged-a"] = event.Places{Sold: 600, House: 602}
	g.update(t.Context())
	require.Empty(t, metricstest.ByLabel(t, "urr_off_sale", "what"), "nothing is sold any more")

	counts, failure = nil, errors.New("no database")
	g.update(t.Context())
	require.Equal(t, map[string]float64{"gauged-a": 600, "gauged-b": 0}, soldPlaces(t), "the last figures stay")

	counts, failure = map[string]event.Places{"gauged-b": {Sold: 3}}, nil
	g.update(t.Context())
	require.Equal(t, map[string]float64{"gauged-b": 3}, soldPlaces(t), "what is long over leaves no series behind")
}
