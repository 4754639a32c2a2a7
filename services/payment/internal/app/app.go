package app

import (
	"context"
	"errors"
	"log/slog"

	"urr.guru/pkg/deadletter"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/proto/events"
	"urr.guru/services/payment/internal/kafka"
	"urr.guru/services/payment/internal/payment"
	"urr.guru/services/payment/internal/postgres"
	"urr.guru/services/payment/internal/rpc"
	"urr.guru/services/payment/internal/ticket"
)

// name is the service's name in logs, in metrics and towards the services that it calls.
const name = "payment"

// Run serves the payment service's RPCs and runs its background workers until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, name, cfg.Config, log)
	if err != nil {
		return err
	}
	pool, err := pkgpostgres.Attach(ctx, a, cfg.Postgres, pkgpostgres.Indexed())
	if err != nil {
		return err
	}
	reads, err := pkgpostgres.AttachReads(ctx, a, cfg.readPoolConfig(), pkgpostgres.Indexed())
	if err != nil {
		return err
	}
	relay, err := outbox.Attach(a, cfg.Kafka, pool)
	if err != nil {
		return err
	}
	conn, err := a.Dial("ticket", cfg.Ticket)
	if err != nil {
		return err
	}
	providers := openProviders(a, cfg, deps{postgres.NewBudgets(pool), log})
	payments := postgres.NewStore(pool, postgres.Options{Reads: reads, Providers: providers.payment().Rows(), Mode: cfg.mode()})
	service := payment.New(payments, ticket.NewClient(conn, providers.payment().Limits()...), providers.payment(), log, payment.Options{
		PagesAtOnce: providers.pagesAtOnce(cfg.ChargesAtOnce), EndpointRate: providers.endpointRate, AwaitRefund: providers.awaitRefund, Observe: observer(), Published: relay.Signal,
		PayoutAfter: cfg.TransferPayoutAfter,
	})
	a.Ready("time of holds", service.CheckHolds)
	a.Go("sweeper", service.Sweep)
	a.Go("claims", service.KeepClaims)
	a.Go("gate", service.WatchGate)
	a.Go("backlog", payments.Measure(log))
	a.Go("idempotency keys", answers.Pruner(pool, log))
	a.Go("rejected refunds", payments.RefundPruner(log))
	// Charges may continue after their requests. The process waits for them after its servers have
	// stopped, and before it closes the connections that they need.
	a.OnClose("charges", service.Wait)

	consumer, err := kafka.NewConsumer(cfg.Kafka, service, log)
	if err != nil {
		return err
	}
	a.Go("consumer", consumer.Run)
	a.Go("inbox", inbox.Pruner(pool, log))

	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	if err := deadletter.Attach(a, server, deadLetters(cfg), inbox.NewRedrivenLetters(pool)); err != nil {
		return err
	}
	rpc.Register(server, service)
	rpc.RegisterDifferences(server, payments)
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		providers.rekey(next)
		return errors.Join(conn.Rekey(next.Ticket.Key), server.Rekey(next.RPC.Accept))
	})
	return a.Run(ctx)
}

// Outbox returns the operators' command for Kafka events that the broker refuses (parked).
func Outbox() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{
		Usage: outbox.Usage,
		Run:   outbox.OperatorCommand(name, func(cfg *Config) pkgpostgres.Config { return cfg.Postgres }),
	}
}

// deadLetters returns the source of the dead letters of this service's consumer group.
func deadLetters(cfg *Config) deadletter.Source {
	return deadletter.Source{Kafka: cfg.Kafka, Group: payment.Group, Topics: events.ConsumedBy(name)}
}

// Kafka returns the command with which operators send dead letters to their topics again.
func Kafka() lifecycle.Command[Config] {
	return deadletter.Command(name, deadLetters, func(ctx context.Context, cfg *Config) (deadletter.Marks, func(), error) {
		return inbox.OpenRedrivenLetters(ctx, cfg.Postgres, name)
	})
}

// Migrate applies the database's migrations and creates the topics payment-events and of redriven letters.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	if err := pkgpostgres.MigrateOnce(ctx, cfg.Postgres, name, postgres.Migrations...); err != nil {
		return err
	}
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: events.Payments}, pkgkafka.TopicOfRedriven(payment.Group))
}
