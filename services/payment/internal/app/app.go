package app

import (
	"context"
	"log/slog"

	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/postgres"
	pkgrpc "urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/kafka"
	"urr.guru/services/payment/internal/payment"
	store "urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/ticket"
)

// name is the service's in logs, metrics and calls.
const name = "payment"

// Run serves until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	app := lifecycle.New(name, cfg.Config, log)
	if err := app.Telemetry(ctx); err != nil {
		return err
	}
	pool, err := postgres.Open(ctx, cfg.Postgres, name, postgres.Indexed())
	if err != nil {
		return err
	}
	app.OnClose("postgres", func(context.Context) error { pool.Close(); return nil })
	app.Ready("postgres", pool.Ping)

	producer, err := pkgkafka.NewProducer(cfg.Kafka, name)
	if err != nil {
		return err
	}
	app.OnClose("producer", producer.Close)
	relay := outbox.NewRelay(pool, producer, log, outbox.Options{})
	app.Go("outbox", relay.Run)

	conn, err := pkgrpc.Dial(name, "ticket", cfg.Ticket)
	if err != nil {
		return err
	}
	app.OnClose("ticket", func(context.Context) error { return conn.Close() })
	provider := sandbox.NewClient(cfg.SandboxURL, cfg.WebhookSecret)
	app.OnClose("provider", func(context.Context) error { provider.Close(); return nil })

	payments := store.NewStore(pool)
	service := payment.New(payments, store.NewRefunds(payments), ticket.NewClient(conn), provider, provider, relay.Signal, log,
		payment.Options{Provider: cfg.Provider, ProviderTimeout: cfg.ProviderTimeout, VoidAfter: cfg.VoidAfter})
	app.Go("sweeper", service.Sweep)
	app.Go("backlog", payments.Measure(log))
	// Charges outlast their requests, so that they are waited for after the servers have stopped and before anything they use is closed.
	app.OnClose("charges", service.Wait)

	consumer, err := kafka.NewConsumer(cfg.Kafka, service, log)
	if err != nil {
		return err
	}
	app.Go("consumer", consumer.Run)

	server, err := pkgrpc.NewServer(name, cfg.RPC, log)
	if err != nil {
		return err
	}
	paymentv1.RegisterPaymentServiceServer(server, rpc.New(service))
	app.ServeGRPC(server)
	return app.Run(ctx)
}

// Migrate brings the database and the topics up to date.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	pool, err := postgres.Open(ctx, cfg.Postgres, name)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := postgres.Migrate(ctx, pool, store.Migrations...); err != nil {
		return err
	}
	// The topic that is consumed is made here too, so that the services may be started in any order.
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: store.Topic}, pkgkafka.Topic{Name: kafka.Reservations})
}
