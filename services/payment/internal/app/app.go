package app

import (
	"context"
	"log/slog"

	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	pkgpostgres "urr.guru/pkg/postgres"
	pkgrpc "urr.guru/pkg/rpc"
	paymentv1 "urr.guru/proto/gen/urr/payment/v1"
	"urr.guru/services/payment/internal/kafka"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/sandbox"
	"urr.guru/services/payment/internal/ticket"
)

// name is the service's in logs, metrics and calls.
const name = "payment"

// Run serves until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a := lifecycle.New(name, cfg.Config, log)
	if err := a.Telemetry(ctx); err != nil {
		return err
	}
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name, pkgpostgres.Indexed())
	if err != nil {
		return err
	}
	a.OnClose("postgres", func(context.Context) error { pool.Close(); return nil })
	a.Ready("postgres", pool.Ping)

	producer, err := pkgkafka.NewProducer(cfg.Kafka, name)
	if err != nil {
		return err
	}
	a.OnClose("producer", producer.Close)
	relay := outbox.NewRelay(pool, producer, log, outbox.Options{})
	a.Go("outbox", relay.Run)

	conn, err := pkgrpc.Dial(name, "ticket", cfg.Ticket)
	if err != nil {
		return err
	}
	a.OnClose("ticket", func(context.Context) error { return conn.Close() })
	provider := sandbox.NewClient(cfg.SandboxURL, cfg.WebhookSecret)
	a.OnClose("provider", func(context.Context) error { provider.Close(); return nil })

	payments := postgres.NewStore(pool)
	service := payment.New(payments, postgres.NewRefunds(payments), ticket.NewClient(conn), provider, provider, relay.Signal, log,
		payment.Options{Provider: cfg.Provider, ProviderTimeout: cfg.ProviderTimeout, VoidAfter: cfg.VoidAfter})
	a.Go("sweeper", service.Sweep)
	a.Go("backlog", payments.Measure(log))
	// Charges outlast their requests, so that they are waited for after the servers have stopped and before anything they use is closed.
	a.OnClose("charges", service.Wait)

	consumer, err := kafka.NewConsumer(cfg.Kafka, service, log)
	if err != nil {
		return err
	}
	a.Go("consumer", consumer.Run)

	server, err := pkgrpc.NewServer(name, cfg.RPC, log)
	if err != nil {
		return err
	}
	paymentv1.RegisterPaymentServiceServer(server, rpc.New(service))
	a.ServeGRPC(server)
	return a.Run(ctx)
}

// Migrate brings the database and the topics up to date.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pkgpostgres.Migrate(ctx, pool, postgres.Migrations...); err != nil {
		return err
	}
	// The topic that is consumed is made here too, so that the services may be started in any order.
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: postgres.Topic}, pkgkafka.Topic{Name: kafka.Reservations})
}
