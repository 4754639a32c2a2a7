package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// soldPlaces reads urr_sold of the events of this test.
func soldPlaces(t *testing.T) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	places := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); f.GetName() == "urr_sold" && l[0].GetName() == "event" && strings.HasPrefix(l[0].GetValue(), "gauged-") {
				places[l[0].GetValue()] = m.GetGauge().GetValue()
			}
		}
	}
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
