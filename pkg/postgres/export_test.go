package postgres

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// InTxWithin is InTx with another limit.
func InTxWithin(ctx context.Context, pool *pgxpool.Pool, longest time.Duration, fn func(ctx context.Context, tx pgx.Tx) error) error {
	return inTx(ctx, pool, longest, fn)
}

// CallsWithin replaces what bounds statements without a deadline and pings; a connection is pinged
// each time that it is taken if pinged.
func CallsWithin(longest time.Duration, pinged bool) Option {
	return func(pc *pgxpool.Config) {
		pc.ConnConfig.Tracer, pc.PingTimeout = limited(longest), longest
		pc.ShouldPing = func(context.Context, pgxpool.ShouldPingParams) bool { return pinged }
	}
}
