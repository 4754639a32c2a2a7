package asyncevent

import "urr.guru/pkg/telemetry"

var requestsTotal = telemetry.Counter( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_requests_total", "Requests that entered a status, by committed transactions of this process.", "status")

// StartMetrics makes all series start at 0, so that the first event is an increase.
func StartMetrics() {
	for _, s := range []Status{Received, Queued, Processing, Succeeded, Rejected, FailedFinal} {
		requestsTotal.WithLabelValues(string(s))
	}
}
