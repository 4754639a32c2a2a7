package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/services/queue/internal/line"
)

var ( //nolint:gochecknoglobals // metrics are registered once per process
	waiting = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_queue_waiting", Help: "Visitors in the event's queue; every replica tells the same, so take the maximum.",
	}, []string{"event"})
	active = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_queue_active", Help: "Visitors who hold a slot of the event; every replica tells the same, so take the maximum.",
	}, []string{"event"})
	selling = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_queue_selling",
		Help: "1 while the event's sale lets its line admit; 0 before it opens, while it is paused or sold out, and when it is over.",
	}, []string{"event"})
	kept = promauto.NewGaugeVec(prometheus.GaugeOpts{
		Name: "urr_queue_kept", Help: "Slots of the event that are kept for visitors who are late; every replica tells the same, so take the maximum.",
	}, []string{"event"})
	admissions = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_admissions_total", Help: "Slots given out by this replica, by ticks and at once; the sum over replicas is the event's.",
	}, []string{"event"})
)

var _ line.Meter = meter{}

// meter exports metrics to Prometheus.
type meter struct{}

// Line implements line.Meter.
func (meter) Line(eventID string, w, a int64, sells bool) {
	waiting.WithLabelValues(eventID).Set(float64(w))
	active.WithLabelValues(eventID).Set(float64(a))
	var on float64
	if sells {
		on = 1
	}
	selling.WithLabelValues(eventID).Set(on)
}

// Admitted implements line.Meter.
func (meter) Admitted(eventID string, n int64) {
	if n > 0 {
		admissions.WithLabelValues(eventID).Add(float64(n))
	}
}

// Kept implements line.Meter.
func (meter) Kept(eventID string, n int64) { kept.WithLabelValues(eventID).Set(float64(n)) }

// Forget implements line.Meter.
func (meter) Forget(eventID string) {
	waiting.DeleteLabelValues(eventID)
	active.DeleteLabelValues(eventID)
	selling.DeleteLabelValues(eventID)
	kept.DeleteLabelValues(eventID)
	admissions.DeleteLabelValues(eventID)
}
