package revoked

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

var (
	revocations = promauto.NewGauge(prometheus.GaugeOpts{
		Name: "urr_revocations", Help: "Revoked sessions and users that this gateway remembers.",
	})
	failedReads = promauto.NewCounter(prometheus.CounterOpts{
		Name: "urr_revocations_failed_reads_total", Help: "Reads of the revoked sessions that failed: the last list counts.",
	})
	writtenBack = promauto.NewCounter(prometheus.CounterOpts{
		Name: "urr_revocations_written_back_total", Help: "Revocations that Redis had lost and this gateway wrote again.",
	})
)
