// Package inbox makes a consumer's effect happen once: the event's key is claimed in the
// transaction of the effect, so that a redelivered event is recognised.
package inbox

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/postgres"
)

//go:embed migrations/*.sql
var files embed.FS

// Migrations creates the table processed_events.
var Migrations = postgres.MigrationSet{Name: "inbox", FS: files}

// Claim marks the event as processed by the group, within tx. fresh is false when it was already
// processed: the caller then does nothing and commits. While another transaction holds the same
// claim, Claim waits for its end. The key is the event's id (kafka.Record.EventID).
func Claim(ctx context.Context, tx pgx.Tx, eventKey, group string) (fresh bool, err error) {
	tag, err := tx.Exec(ctx, `INSERT INTO processed_events (event_key, consumer_group) VALUES ($1, $2) ON CONFLICT DO NOTHING`,
		eventKey, group)
	if err != nil {
		return false, fmt.Errorf("claim event %s: %w", eventKey, err)
	}
	return tag.RowsAffected() == 1, nil
}

// ClaimAll claims many keys with one statement and returns the fresh ones. A repeated key is fresh
// once. Keys are inserted in a fixed order, so that two overlapping batches cannot deadlock.
func ClaimAll(ctx context.Context, tx pgx.Tx, eventKeys []string, group string) (map[string]bool, error) {
	rows, _ := tx.Query(ctx, `
		INSERT INTO processed_events (event_key, consumer_group)
		SELECT DISTINCT k, $2 FROM unnest($1::text[]) AS k ORDER BY k
		ON CONFLICT DO NOTHING
		RETURNING event_key`, eventKeys, group) // CollectRows returns its error
	keys, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, fmt.Errorf("claim %d events: %w", len(eventKeys), err)
	}
	fresh := make(map[string]bool, len(keys))
	for _, k := range keys {
		fresh[k] = true
	}
	return fresh, nil
}
