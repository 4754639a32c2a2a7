package roomstate

import "urr.guru/pkg/telemetry"

//nolint:gochecknoglobals // metrics are registered once per process
var silentFor = telemetry.Gauge("urr_rooms_silent_seconds",
	"Seconds since a replica of vwr sent what it had just read; about 1 while all is well.").WithLabelValues()
