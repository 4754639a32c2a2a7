package app

import (
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/services/queue/internal/line"
)

func TestMeter(t *testing.T) {
	t.Parallel()
	m := prometheusMeter{}
	m.SetFigures("metered", line.Figures{
		Waiting: 7, WaitingGeneral: 4, Active: 3, Threshold: 10, Epoch: 1_800_000_000_500_000, Paused: true, Silent: true, Away: true, Pending: 2,
	})
	m.AddAdmissions("metered", 0)
	require.Equal(t, map[string]float64{
		"urr_queue_waiting": 7, "urr_queue_waiting_general": 4, "urr_queue_active": 3, "urr_queue_threshold": 10, "urr_queue_kept": 0, "urr_queue_selling": 0,
		"urr_queue_paused": 1, "urr_queue_silent": 1, "urr_queue_shop_away": 1, "urr_queue_pending_acts": 2, "urr_queue_epoch_timestamp_seconds": 1_800_000_000.5, "urr_queue_failing": 0,
		"urr_admissions_total": 0,
	}, metricstest.ByName(t, "event", "metered"), "the counter starts at 0")
	m.AddAdmissions("metered", 2)
	m.SetFigures("metered", line.Figures{Waiting: 4, Active: 5, Threshold: 20, Kept: 2, Epoch: 1_800_000_001_000_000, Selling: true})
	m.AddAdmissions("metered", 1)
	require.Equal(t, map[string]float64{
		"urr_queue_waiting": 4, "urr_queue_waiting_general": 0, "urr_queue_active": 5, "urr_queue_threshold": 20, "urr_queue_kept": 2, "urr_queue_selling": 1,
		"urr_queue_paused": 0, "urr_queue_silent": 0, "urr_queue_shop_away": 0, "urr_queue_pending_acts": 0, "urr_queue_epoch_timestamp_seconds": 1_800_000_001, "urr_queue_failing": 0,
		"urr_admissions_total": 3,
	}, metricstest.ByName(t, "event", "metered"))
	m.RecordTickFailure("metered")
	require.Equal(t, map[string]float64{"urr_queue_failing": 1, "urr_admissions_total": 3}, metricstest.ByName(t, "event", "metered"),
		"figures that are not known are not reported")
	m.ForgetLine("metered")
	require.Empty(t, metricstest.ByName(t, "event", "metered"), "an event that is over leaves no series behind")
}
