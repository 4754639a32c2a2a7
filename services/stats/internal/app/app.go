package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"urr.guru/pkg/deadletter"
	"urr.guru/pkg/inbox"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	pkgpostgres "urr.guru/pkg/postgres"
	topics "urr.guru/proto/events"
	statsv1 "urr.guru/proto/gen/urr/stats/v1"
	"urr.guru/services/stats/internal/figures"
	"urr.guru/services/stats/internal/kafka"
	"urr.guru/services/stats/internal/postgres"
	"urr.guru/services/stats/internal/rpc"
	"urr.guru/services/stats/internal/ticket"
)

// name is the name of this service in logs, metrics and calls to other services.
const name = "stats"

// Run runs the stats service until ctx ends: it serves its RPCs and consumes its Kafka topics.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, name, cfg.Config, log)
	if err != nil {
		return err
	}
	pool, err := pkgpostgres.Attach(ctx, a, cfg.Postgres, postgres.SearchPath())
	if err != nil {
		return err
	}
	readPool, err := pkgpostgres.AttachReads(ctx, a, cfg.readPoolConfig(), postgres.SearchPath())
	if err != nil {
		return err
	}
	store, reads := postgres.NewStore(pool), postgres.NewStore(readPool)
	consumer, err := kafka.NewConsumer(cfg.Kafka, figures.NewService(store, inbox.Retention, time.Now), store, store, log)
	if err != nil {
		return err
	}
	events, err := a.Dial("ticket", cfg.Ticket)
	if err != nil {
		return err
	}
	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	if err := deadletter.Attach(a, server, deadLetters(cfg), inbox.NewRedrivenLetters(pool)); err != nil {
		return err
	}
	statsv1.RegisterStatsServiceServer(server, rpc.New(
		figures.NewCached(reads, time.Now), figures.NewDays(reads, ticket.NewZones(events, time.Now)), reads,
	))
	a.Go("consumer", consumer.Run)
	a.Go("inbox", inbox.Pruner(pool, log))
	a.Go("old minutes", store.MinutesPruner(time.Now, log))
	a.Go("old acts", store.ActsPruner(cfg.AuditRetention, time.Now, log))
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		return errors.Join(server.Rekey(next.RPC.Accept), events.Rekey(next.Ticket.Key))
	})
	return a.Run(ctx)
}

// deadLetters returns the consumer group and topics whose dead letters belong to this service.
func deadLetters(cfg *Config) deadletter.Source {
	return deadletter.Source{Kafka: cfg.Kafka, Group: figures.Group, Topics: topics.ConsumedBy(name)}
}

// Kafka returns the subcommand `kafka`, with which operators list and redrive dead letters.
func Kafka() lifecycle.Command[Config] {
	return deadletter.Command(name, deadLetters, func(ctx context.Context, cfg *Config) (deadletter.Marks, func(), error) {
		return inbox.OpenRedrivenLetters(ctx, cfg.Postgres, name, postgres.SearchPath())
	})
}

// Migrate migrates the database, and creates the topic of redriven letters. Each other topic is created
// by the service that publishes to it.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	if err := pkgpostgres.MigrateOnce(ctx, cfg.Postgres, name, postgres.Migrations...); err != nil {
		return err
	}
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.TopicOfRedriven(figures.Group))
}
