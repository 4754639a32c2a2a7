package overload

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	waitSeconds = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_processor_wait_seconds", Help: "How long the tenth of the goroutines that waited longest for a processor waited in 0.1 s.",
	})
	refusedShare = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_polls_refused_share", Help: "Share of the polls of rooms and lines that is refused because of an overload.",
	})
)
