package app

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/worker/internal/announce"
)

const measureEvery = 10 * time.Second

//nolint:gochecknoglobals // metrics are registered once per process
var (
	queued = telemetry.Gauge("urr_requests_queue_messages",
		"Messages of event requests in a queue (requests, dead), hidden ones included; without a value while SQS does not answer.", "queue")
	unannounced = telemetry.Gauge("urr_requests_unannounced_oldest_seconds",
		"Age of the oldest end of a request that is not published, in the partitions of this replica; 0: there is none.").WithLabelValues()
)

// backlogWorker returns a background worker that exports as gauges how many messages are in the
// queues, and how old the oldest unpublished announcement is.
func backlogWorker(queues map[string]*queue.Queue, relay *announce.Relay, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, measureEvery, func(ctx context.Context) {
			for name, q := range queues {
				depth, err := q.Depth(ctx)
				if err != nil {
					queued.DeleteLabelValues(name)
					log.WarnContext(ctx, "queue not measured", "queue", name, "error", err)
					continue
				}
				queued.WithLabelValues(name).Set(float64(depth))
			}
			unannounced.Set(0)
			if t := relay.Oldest(); !t.IsZero() {
				unannounced.Set(time.Since(t).Seconds())
			}
		})
	}
}
