package app

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/inbox"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	pkgpostgres "urr.guru/pkg/postgres"
	topics "urr.guru/proto/events"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/kafka"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/rpc"
	"urr.guru/services/ticket/internal/ticket"
)

const name = "ticket"

// Run serves until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, name, cfg.Config, log)
	if err != nil {
		return err
	}
	pool, err := pkgpostgres.Attach(ctx, a, cfg.Postgres, pkgpostgres.Indexed())
	if err != nil {
		return err
	}
	reads, err := pkgpostgres.AttachReads(ctx, a, cfg.reads(), pkgpostgres.Indexed())
	if err != nil {
		return err
	}
	relay, err := outbox.Attach(a, cfg.Kafka, pool)
	if err != nil {
		return err
	}
	store := postgres.NewStore(pool, postgres.Options{Reads: reads, HoldFor: cfg.holdFor(), Published: relay.Signal})
	holds := postgres.NewHolds(store, cfg.HoldConcurrency)
	a.OnClose("holds", holds.Close)
	events := event.NewService(store, store, store)
	reservations := reservation.NewService(events, holds, store, cfg.HoldMaxExtension)
	consumer, err := kafka.NewConsumer(cfg.Kafka, reservations, log)
	if err != nil {
		return err
	}
	unapplied := pkgkafka.NewUnapplied(cfg.Kafka, kafka.Group, topics.Payments, time.Now)
	sweeper := &reservation.Sweeper{Store: store, Every: cfg.SweepInterval, Inconsistent: observeInconsistent, Log: log}
	a.Go("sweeper", sweeper.Run)
	a.Go("sold", store.MeasureSold(log))
	a.Go("consumer", consumer.Run)
	a.Go("unapplied", unapplied.Run)
	a.Go("inbox", inbox.Pruner(pool, log))

	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	ticketv1.RegisterEventServiceServer(server, rpc.NewEvents(events))
	ticketv1.RegisterEventAdminServiceServer(server, rpc.NewEventAdmin(events))
	ticketv1.RegisterHoldServiceServer(server, rpc.NewHolds(reservations))
	ticketv1.RegisterReservationServiceServer(server, rpc.NewReservations(reservations))
	ticketv1.RegisterPayableServiceServer(server, rpc.NewPayables(reservations, unapplied))
	tickets := ticket.NewService(store, cfg.keys)
	ticketv1.RegisterTicketServiceServer(server, rpc.NewTickets(tickets))
	log.InfoContext(ctx, "ticket codes are signed", "public_keys", cfg.keys.Public())
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		tickets.Rekey(next.keys)
		log.InfoContext(ctx, "ticket codes are signed", "public_keys", next.keys.Public())
		return server.Rekey(next.RPC.Accept)
	})
	return a.Run(ctx)
}

// Outbox is the operators' command on events whose key is parked.
func Outbox() lifecycle.Extra[Config] {
	return outbox.OperatorCommand(name, func(cfg *Config) pkgpostgres.Config { return cfg.Postgres })
}

// Migrate brings the tables and the topic of this service up to date.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	if err := pkgpostgres.MigrateOnce(ctx, cfg.Postgres, name, postgres.Migrations...); err != nil {
		return err
	}
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: topics.Reservations})
}
