package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/postgres"
)

// Keep is for how long it is remembered that an event was processed. It bounds how late a copy of
// the event may come: a redelivery after a crash or a rebalance (seconds), a second publication by
// a relay that died before it knew of the first (as long as that relay is away), a dead letter that
// is redriven twice (as long as operators need).
//
// A group that lost its offsets reads its topics from the start, which keep everything, and so
// events older than this as well. Whoever claims must therefore be right without the inbox about
// events older than Keep: because its state tells what they have done (ticket, payment), or because
// it knows how far it has read (stats).
const Keep = 30 * 24 * time.Hour

const (
	// slack is what the clocks of those who publish and of the database may differ by: an event may
	// look younger than it is remembered.
	slack      = time.Hour
	pruneBatch = 5000
	// pruneRounds bounds one run, so that a table that was never pruned is worked off a million
	// rows at a time.
	pruneRounds = 200
	pruneEvery  = 10 * time.Minute
)

var pruned = promauto.NewCounter(prometheus.CounterOpts{
	Name: "urr_inbox_pruned_total", Help: "Processed events that were forgotten.",
})

// Prune forgets what was processed longer than Keep ago, in short statements, and returns how many
// events that were. Any number of replicas may do so at once: what one deletes the others skip. now
// is nil for the database's clock.
func Prune(ctx context.Context, pool *pgxpool.Pool, now *time.Time) (int64, error) {
	var total int64
	for range pruneRounds {
		tag, err := pool.Exec(ctx, `
			DELETE FROM processed_events
			WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM processed_events
				WHERE processed_at < coalesce($1::timestamptz, now()) - $2::interval
				ORDER BY processed_at
				LIMIT $3
				FOR UPDATE SKIP LOCKED))`, now, Keep+slack, pruneBatch)
		if err != nil {
			return total, fmt.Errorf("prune the inbox: %w", postgres.Err(err))
		}
		total += tag.RowsAffected()
		pruned.Add(float64(tag.RowsAffected()))
		if tag.RowsAffected() < pruneBatch {
			break
		}
	}
	return total, nil
}

// Pruner returns a worker that prunes every ten minutes until its context ends. What fails is for
// the next time.
func Pruner(pool *pgxpool.Pool, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		// Not all replicas at once, nor right after the start, when there is more urgent work.
		timer := time.NewTimer(rand.N(pruneEvery)) //nolint:gosec // jitter
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return nil
			case <-timer.C:
			}
			if _, err := Prune(ctx, pool, nil); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "inbox not pruned", "error", err)
			}
			timer.Reset(pruneEvery)
		}
	}
}
