package seats

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// Kinds of frames that are sent to readers.
const (
	kindChanges = "changes"
	kindWhole   = "all"
)

var (
	readersGauge = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_seat_readers", Help: "Streams of changes of seats.",
	})
	framesTotal = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_seat_frames_total", Help: "Events sent to readers of seats: changes, or all seats.",
	}, []string{"sent"})
)
