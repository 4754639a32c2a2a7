package postgres

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"

	"urr.guru/pkg/telemetry"
)

// App has the methods of lifecycle.App that Attach uses. Importing package lifecycle would bring
// the gRPC server into every program that uses a store.
type App interface {
	Name() string
	OnClose(name string, fn func(context.Context) error)
	Ready(name string, check func(context.Context) error)
}

// Attach opens a service's connection pool and closes it at shutdown. The service is ready only if
// the database answers.
func Attach(ctx context.Context, a App, cfg Config, opts ...Option) (*pgxpool.Pool, error) {
	pool, err := attach(ctx, a, cfg, a.Name(), opts)
	if err != nil {
		return nil, err
	}
	a.Ready("postgres", pool.Ping)
	return pool, nil
}

// AttachReads opens a second pool, for reads, so that they cannot use up the connections of other
// work. It is closed at shutdown.
func AttachReads(ctx context.Context, a App, cfg Config, opts ...Option) (*pgxpool.Pool, error) {
	return attach(ctx, a, cfg, a.Name()+"-reads", opts)
}

func attach(ctx context.Context, a App, cfg Config, name string, opts []Option) (*pgxpool.Pool, error) {
	pool, err := Open(ctx, cfg, name, opts...)
	if err != nil {
		return nil, err
	}
	unwatch := telemetry.WatchPool(name, func() telemetry.Pool { return poolStats(pool.Stat()) })
	a.OnClose(name, func(context.Context) error {
		unwatch()
		pool.Close()
		return nil
	})
	return pool, nil
}

func poolStats(s *pgxpool.Stat) telemetry.Pool {
	return telemetry.Pool{
		Max: int(s.MaxConns()), Used: int(s.AcquiredConns()), Idle: int(s.IdleConns()),
		Acquired: s.AcquireCount(), TimedOut: s.CanceledAcquireCount(), Waited: s.EmptyAcquireWaitTime(),
	}
}
