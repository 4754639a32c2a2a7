package rpc

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/errs"
)

// Rate, errors and duration per method: the count of the histogram is the rate, and its label kind
// ("ok" or an errs.Kind) gives the errors.
var (
	serverSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "urr_rpc_server_seconds", Help: "Time a server took to answer a call (streams: until they ended).",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	}, []string{"method", "kind"})
	serverReasons = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_rpc_server_refusals_total", Help: "Calls that failed, by stable code.",
	}, []string{"method", "reason"})
	refusedCallers = promauto.NewCounterVec(prometheus.CounterOpts{
		Name: "urr_rpc_refused_callers_total", Help: "Calls that were refused for their caller, by the service that it claims to be.",
	}, []string{"method", "caller"})
	clientSeconds = promauto.NewHistogramVec(prometheus.HistogramOpts{
		Name: "urr_rpc_client_seconds", Help: "Time a call took as its caller saw it, retries included.",
		Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
	}, []string{"callee", "method", "kind"})
	certificateExpires = promauto.NewGaugeVec(prometheus.GaugeOpts{ // without a certificate there is no value
		Name: "urr_rpc_certificate_expires_timestamp_seconds", Help: "When the first certificate in the chain of this service's own expires.",
	}, nil)
)

func kindLabel(e *errs.Error) string {
	if e == nil {
		return "ok"
	}
	return string(e.Kind)
}

func observeServer(method string, start time.Time, e *errs.Error) {
	serverSeconds.WithLabelValues(method, kindLabel(e)).Observe(time.Since(start).Seconds())
	if e != nil {
		serverReasons.WithLabelValues(method, e.Reason).Inc()
	}
}
