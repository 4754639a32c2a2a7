// Package inbox makes a Kafka event take effect once: its id is stored in the transaction of the
// effect, so that a second delivery is recognised.
package inbox

import (
	"context"
	"embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates the table processed_events.
var Migrations = postgres.MigrationSet{Name: "inbox", FS: files}

// Claim stores in tx that a consumer group has processed an event. fresh is false if that was
// stored before: the caller then does nothing and commits. If another transaction claims the same
// event, Claim waits for its end. eventKey is the event's id (kafka.Record.EventID).
func Claim(ctx context.Context, tx pgx.Tx, eventKey, group string) (fresh bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO processed_events (event_key, consumer_group) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		eventKey, group)
	if err != nil {
		return false, fmt.Errorf("claim event %s: %w", eventKey, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ClaimAll claims many events with one statement and returns the fresh ones. A repeated key is
// fresh once. The keys are inserted in a fixed order, so overlapping batches cannot deadlock.
func ClaimAll(ctx context.Context, tx pgx.Tx, eventKeys []string, group string) (map[string]bool, error) {
	return claim(ctx, tx, len(eventKeys), `
		INSERT INTO processed_events (event_key, consumer_group)
		SELECT DISTINCT k, $2 FROM unnest($1::text[]) AS k ORDER BY k
		ON CONFLICT DO NOTHING
		RETURNING event_key`, eventKeys, group)
}

// claim runs a statement that claims n events and returns those that are fresh.
func claim(ctx context.Context, tx pgx.Tx, n int, sql string, args ...any) (map[string]bool, error) {
	rows, _ := tx.Query(ctx, sql, args...) // CollectRows returns its error
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("claim %d events: %w", n, err)
	}
	fresh := make(map[string]bool, len(keys))
	for _, k := range keys {
		fresh[k] = true
	}
	return fresh, nil
}

// ClaimAllAt is ClaimAll for events that were processed long ago. The inbox keeps each id as if it
// had been claimed at its time. times has one time for each key.
func ClaimAllAt(ctx context.Context, tx pgx.Tx, eventKeys []string, times []time.Time, group string) (map[string]bool, error) {
	return claim(ctx, tx, len(eventKeys), `
		INSERT INTO processed_events (event_key, consumer_group, processed_at)
		SELECT DISTINCT ON (k) k, $3, at FROM unnest($1::text[], $2::timestamptz[]) AS u (k, at) ORDER BY k, at
		ON CONFLICT DO NOTHING
		RETURNING event_key`, eventKeys, times, group)
}
