package app

import (
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// The test is not parallel, since Prometheus has one default registry per process.
func TestMetricsOfActiveEvents(t *testing.T) {
	// It runs twice, to show that unregistering removes the metrics of the first event.
	for _, event := range []string{"metrics-1", "metrics-2"} {
		cache := room.NewStateCache()
		advancer := room.NewAdvancer(cache, nil, nil, nil, time.Now, slog.New(slog.DiscardHandler))
		driver := lobby.NewDriver(lobby.NewService(cache, nil, lobby.Store{}, nil, lobby.Keys{}, lobby.Schedule{}, nil, time.Now), lobby.Store{}, nil)
		c := room.Counters{
			EventID: event, Active: true, Round: 7, Issued: 30, Serving: 12, Claimed: 9, Settings: room.DefaultSettings(),
		}
		cache.Merge(c)
		unregister, err := registerMetrics(cache, advancer, driver)
		require.NoError(t, err)
		require.Equal(t, map[string]float64{
			"urr_vwr_serving": 12, "urr_vwr_issued": 30, "urr_vwr_waiting": 18, "urr_vwr_claimed": 9, "urr_vwr_rate": 0, "urr_vwr_configured_rate": 50,
			"urr_vwr_ask_rate": 1000, "urr_vwr_tier2_full": 0, "urr_vwr_asking": 0,
		}, metricstest.ByName(t, "event", event))

		c.Serving = 20
		cache.Merge(c)
		require.InDelta(t, 20, metricstest.ByName(t, "event", event)["urr_vwr_serving"], 0)
		c.Active = false
		cache.Merge(c)
		require.Empty(t, metricstest.ByName(t, "event", event), "the labels stay few")
		require.NoError(t, unregister(t.Context()))
	}
}
