package app

import (
	"context"
	"log/slog"

	"urr.guru/pkg/inbox"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/postgres"
	pkgrpc "urr.guru/pkg/rpc"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/kafka"
	store "urr.guru/services/stats/internal/postgres"
	"urr.guru/services/stats/internal/rpc"
)

// name is the service's in logs, metrics and calls.
const name = "stats"

// Run serves until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	app := lifecycle.New(name, cfg.Config, log)
	if err := app.Telemetry(ctx); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, cfg.Postgres, name)
	if err != nil {
		return err
	}
	app.OnClose("postgres", func(context.Context) error { pool.Close(); return nil })
	app.Ready("postgres", pool.Ping)

	figures := store.NewStore(pool)
	consumer, err := kafka.NewConsumer(cfg.Kafka, figures, log)
	if err != nil {
		return err
	}
	app.Go("consumer", consumer.Run)

	server, err := pkgrpc.NewServer(name, cfg.RPC, log)
	if err != nil {
		return err
	}
	statsv1.RegisterStatsServiceServer(server, rpc.New(figures))
	app.ServeGRPC(server)
	return app.Run(ctx)
}

// Migrate brings the database up to date. The topics are their producers'.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	pool, err := postgres.Open(ctx, cfg.Postgres, name)
	if err != nil {
		return err
	}
	defer pool.Close()
	return postgres.Migrate(ctx, pool, inbox.Migrations, store.Migrations)
}
