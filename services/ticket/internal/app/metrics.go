package app

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var inconsistent = promauto.NewGauge(prometheus.GaugeOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_reservations_inconsistent",
	Help: "Reservations whose time is over and that cannot be expired, since they contradict what else the database says. Each replica finds them itself.",
})

func observeInconsistent(n int) { inconsistent.Set(float64(n)) }
