package dynamo

import "urr.guru/pkg/telemetry"

// deadLetters starts at 0, so that Prometheus sees the first dead letter as an increase.
var deadLetters = telemetry.Counter( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_requests_dead_letters_total", "Messages of event requests that were kept for operators.").WithLabelValues()
