package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/services/vwr/internal/room"
)

// gathered are the figures of an event, and those of the replica.
func gathered(t *testing.T, event string) map[string]float64 {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if l := m.GetLabel(); len(l) == 1 && l[0].GetName() == "event" && l[0].GetValue() == event {
				values[f.GetName()] = m.GetGauge().GetValue()
			}
		}
	}
	return values
}

// Not parallel: the registry is the process's.
func TestFiguresOfActiveEvents(t *testing.T) {
	for _, event := range []string{"metrics-1", "metrics-2"} { // twice: the first leaves nothing behind, though its event has ended
		board := room.NewBoard()
		advancer := room.NewAdvancer(board, nil, nil, nil, time.Now, slog.New(slog.DiscardHandler))
		c := room.Counters{
			EventID: event, Active: true, Round: 7, Issued: 30, Serving: 12, Claimed: 9, Settings: room.DefaultSettings(),
		}
		board.Apply(c)
		unregister, err := expose(board, advancer)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{
			"urr_vwr_serving": 12, "urr_vwr_issued": 30, "urr_vwr_waiting": 18, "urr_vwr_claimed": 9, "urr_vwr_rate": 0, "urr_vwr_configured_rate": 50,
		}, gathered(t, event))

		c.Serving = 20
		board.Apply(c)
		require.InDelta(t, 20, gathered(t, event)["urr_vwr_serving"], 0)
		c.Active = false
		board.Apply(c)
		require.Empty(t, gathered(t, event), "the labels stay few")
		require.NoError(t, unregister(t.Context()))
	}
}
