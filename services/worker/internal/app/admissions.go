package app

import (
	"context"
	"log/slog"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/telemetry"
	"urr.guru/services/worker/internal/deadletter"
	"urr.guru/services/worker/internal/dynamo"
)

const (
	// handleTimeout is the time limit of the work on the admissions that one call has received.
	handleTimeout = 20 * time.Second
	// errorPause is the pause after a failed call of SQS or of the table.
	errorPause = time.Second
)

var admissionsTotal = telemetry.Counter( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_admissions_heard_total", "Admissions read from SQS, by action (admitted, other), and those that were kept for operators (unreadable).", "action")

// startAdmissions starts the background workers that read admissions from SQS. If their queue is
// not configured, only the stored dead letters are served.
func startAdmissions(a *lifecycle.App, cfg *Config, client *awssqs.Client, store *dynamo.Store, log *slog.Logger) *deadletter.Admissions {
	count := func(action string) { admissionsTotal.WithLabelValues(action).Inc() }
	admissionsTotal.WithLabelValues("unreadable") // start at 0, so that the first one is an increase
	if cfg.Admissions == "" {
		return deadletter.NewAdmissions(store, nil, count, log)
	}
	live, dead := queue.New(client, queue.Config{Name: cfg.Admissions}), queue.NewDeadLetters(client, queue.Config{Name: cfg.Admissions})
	admissions := deadletter.NewAdmissions(store, live, count, log)
	a.Go("admissions", receiveUntilDone(live, admissions.Handle, log))
	a.Go("dead admissions", receiveUntilDone(dead, admissions.HandleDead(dead), log))
	return admissions
}

// receiveUntilDone returns a background worker that receives and handles messages until ctx ends.
// Then it releases the messages just received. SQS redelivers messages whose handling has failed.
func receiveUntilDone(from *queue.Queue, handle func(context.Context, []promotion.Delivery) error, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		for ctx.Err() == nil {
			batch, err := from.Receive(ctx)
			work, cancel := context.WithTimeout(context.WithoutCancel(ctx), handleTimeout)
			switch {
			case ctx.Err() != nil:
				err = from.Release(work, batch, 0)
			case len(batch) > 0:
				err = handle(work, batch)
			}
			cancel()
			if err != nil {
				log.WarnContext(ctx, "admissions not read, trying again", "error", err)
				loop.Sleep(ctx, errorPause)
			}
		}
		return nil
	}
}
