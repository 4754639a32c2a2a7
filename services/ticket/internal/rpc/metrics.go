package rpc

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/errs"
)

var holdsTotal = promauto.NewCounterVec(prometheus.CounterOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_holds_total",
	Help: "Requests to hold places, by result: HELD, or the reason of the refusal.",
}, []string{"result"})

func countHold(err error) {
	result := "HELD"
	if err != nil {
		result = errs.From(err).Reason
	}
	holdsTotal.WithLabelValues(result).Inc()
}

// The values of the label door: a door with a network, or one without that uploads scans later.
const (
	doorOnline  = "online"
	doorOffline = "offline"
)

var checkInsTotal = promauto.NewCounterVec(prometheus.CounterOpts{ //nolint:gochecknoglobals // metrics are registered once per process
	Name: "urr_check_ins_total",
	Help: "Codes read at doors, by door (online, or offline: uploaded later, also repeatedly) and result: ADMITTED, or why not.",
}, []string{"door", "result"})
