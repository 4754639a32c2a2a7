package app

import (
	"context"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/ingest/internal/request"
)

// measureEvery is the interval at which the gauges are updated, about that of Prometheus's scrapes.
const measureEvery = 5 * time.Second

//nolint:gochecknoglobals // metrics are registered once per process
var (
	unsettled = telemetry.Gauge("urr_requests_unsettled",
		"Requests older than INGEST_SEND_AFTER that have not ended, in the partitions that this replica sweeps.", "state")
	unsettledAge = telemetry.Gauge("urr_requests_unsettled_oldest_seconds", "Age of the oldest of them; 0: there is none.").WithLabelValues()
	sweptAt      = telemetry.Gauge("urr_requests_swept_timestamp_seconds", "When this replica last passed over its markers without an error.").WithLabelValues()
)

// backlogWorker returns a background worker that exports the sweeper's backlog as gauges.
func backlogWorker(sweeper *request.Sweeper) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, measureEvery, func(context.Context) { exportBacklog(sweeper.Backlog(), time.Now()) })
	}
}

func exportBacklog(b request.Backlog, now time.Time) {
	unsettled.WithLabelValues("unsent").Set(float64(b.Unsent))
	unsettled.WithLabelValues("queued").Set(float64(b.Queued))
	unsettledAge.Set(0)
	if !b.Oldest.IsZero() {
		unsettledAge.Set(now.Sub(b.Oldest).Seconds())
	}
	sweptAt.Set(float64(b.SweptAt.UnixMilli()) / 1000)
}
