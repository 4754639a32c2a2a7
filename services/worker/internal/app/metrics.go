package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/worker/internal/draw"
)

// Every replica exports the same gauges of the open draws, except the number of failing draws.
var ( //nolint:gochecknoglobals // metrics are registered once per process
	drawWaiting = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_draw_waiting_seconds",
		Help: "For how long the lottery that waits longest has waited for unsettled requests after its cutoff; 0 when none does.",
	})
	drawLate = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_draw_late_seconds", Help: "For how long the announcement that is overdue longest has been so; 0 when none is.",
	})
	drawKeysMissing = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_draws_key_missing", Help: "Open draws whose seed or signature needs a key that this replica does not have.",
	})
	drawsPassedAt = newDrawsPassedAt()
	drawsFailing  = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_draws_failing", Help: "Open draws that this replica could not bring forward in its last pass.",
	})
)

// newDrawsPassedAt returns the gauge with the time of the last pass. It begins with the time of the
// start, so that a replica which never reads the open draws is noticed.
func newDrawsPassedAt() prometheus.Gauge {
	g := promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_draws_passed_timestamp_seconds", Help: "When this replica last read the open draws; until then the other figures of draws are old.",
	})
	g.SetToCurrentTime()
	return g
}

var _ draw.Meter = meter{}

// meter exports the figures of open draws as gauges.
type meter struct{}

func (meter) SetFigures(f draw.Figures) {
	drawWaiting.Set(f.Waiting.Seconds())
	drawLate.Set(f.Late.Seconds())
	drawKeysMissing.Set(float64(f.KeyMissing))
	drawsFailing.Set(float64(f.Failing))
	drawsPassedAt.SetToCurrentTime()
}
