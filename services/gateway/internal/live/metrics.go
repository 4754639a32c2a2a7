package live

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var listenersGauge = promauto.NewGauge(prometheus.GaugeOpts{
	Name: "urr_live_listeners", Help: "Operators' streams of live figures.",
})
