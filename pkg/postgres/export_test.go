package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// InTxWithin is InTx with another timeout.
func InTxWithin(ctx context.Context, pool *pgxpool.Pool, timeout time.Duration, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return inTx(ctx, pool, timeout, fn)
}

// MigrateWithoutPauses is Migrate without pauses between the attempts to get a lock.
func MigrateWithoutPauses(ctx context.Context, pool *pgxpool.Pool, sets ...MigrationSet) error {
	return migrate(ctx, pool, 0, sets)
}

// CallsWithin replaces the timeout of statements without a deadline and of pings; if pinged, a
// connection is pinged each time it is acquired.
func CallsWithin(timeout time.Duration, pinged bool) Option {
	return func(pc *pgxpool.Config) {
		pc.ConnConfig.Tracer, pc.PingTimeout = newTracer(timeout), timeout
		pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return pinged }
	}
}
