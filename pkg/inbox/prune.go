package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/postgres"
)

// Retention is how long the inbox keeps the id of a processed event. A copy of the event must
// arrive within this time: a redelivery after a crash or a rebalance (seconds), a second
// publication by a relay that died before it recorded the first (as long as that relay is down), or
// a dead letter that is redriven twice (as long as operators need).
//
// A group that lost its offsets reads its topics from the start. Topics keep everything, so it also
// reads events older than Retention. Consumers must therefore handle such events correctly without
// the inbox: by their state, which shows the event's effect (ticket, payment), or by their own
// offsets (stats).
const Retention = 30 * 24 * time.Hour

const (
	// clockSkew is the most by which the clocks of publishers and of the database may differ. Rows are
	// kept that much longer than Retention: by its publisher's clock an event may look younger.
	clockSkew = time.Hour
	// One call of Prune deletes at most pruneStatements × pruneBatch rows, a million.
	pruneBatch      = 5000
	pruneStatements = 200
	pruneEvery      = 10 * time.Minute
)

var pruned = promauto.NewCounter(prometheus.CounterOpts{
	Name: "urr_inbox_pruned_total", Help: "Processed events that were forgotten.",
})

// Prune deletes the ids of events processed longer than Retention ago, in short statements, and
// returns their number. Any number of replicas may prune at once: they skip each other's rows. now
// is nil for the database's clock; only tests set it.
func Prune(ctx context.Context, pool *pgxpool.Pool, now *time.Time) (int64, error) {
	var total int64
	for range pruneStatements {
		tag, err := pool.Exec(ctx, `
			DELETE FROM processed_events
			WHERE ctid = ANY (ARRAY(
				SELECT ctid FROM processed_events
				WHERE processed_at < coalesce($1::timestamptz, now()) - $2::interval
				ORDER BY processed_at
				LIMIT $3
				FOR UPDATE SKIP LOCKED))`, now, Retention+clockSkew, pruneBatch)
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

// Pruner returns a worker that calls Prune every ten minutes until its context ends.
func Pruner(pool *pgxpool.Pool, log *slog.Logger) func(context.Context) error {
	return loop.Pruner(pruneEvery, log, "inbox not pruned", func(ctx context.Context) error {
		_, err := Prune(ctx, pool, nil)
		return err
	})
}
