package app

import (
	"context"
	"fmt"
	"log/slog"

	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	pkgpostgres "urr.guru/pkg/postgres"
	pkgrpc "urr.guru/pkg/rpc"
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

	store := postgres.NewStore(pool, postgres.Options{
		ReservationTopic: kafka.ReservationEvents, HoldFor: cfg.holdFor(), Published: relay.Signal,
	})
	holds := postgres.NewHolds(store, cfg.HoldConcurrency)
	events := event.NewService(store, store, store)
	reservations := reservation.NewService(events, holds, store, cfg.HoldMaxExtension)

	consumer, err := kafka.NewConsumer(cfg.Kafka, store, log)
	if err != nil {
		return err
	}
	// Workers end in the opposite order: the relay last, so that it still publishes what the others have left.
	a.Go("outbox", relay.Run)
	a.OnClose("holds", holds.Close)
	a.Go("sweeper", (&sweeper{store: store, every: cfg.SweepInterval, log: log}).run)
	a.Go("sold", (&soldGauge{store: store, log: log}).run)
	a.Go("consumer", consumer.Run)

	server, err := pkgrpc.NewServer(name, cfg.RPC, log)
	if err != nil {
		return err
	}
	ticketv1.RegisterEventServiceServer(server, rpc.NewEvents(events))
	ticketv1.RegisterEventAdminServiceServer(server, rpc.NewEventAdmin(events))
	ticketv1.RegisterHoldServiceServer(server, rpc.NewHolds(reservations))
	ticketv1.RegisterReservationServiceServer(server, rpc.NewReservations(reservations))
	ticketv1.RegisterPayableServiceServer(server, rpc.NewPayables(reservations))
	ticketv1.RegisterTicketServiceServer(server, rpc.NewTickets(ticket.NewService(store, cfg.keys)))
	a.ServeGRPC(server)
	log.InfoContext(ctx, "ticket codes are signed", "public_keys", cfg.keys.Public())
	return a.Run(ctx)
}

// Migrate brings the tables and the topics of this service up to date.
func Migrate(ctx context.Context, cfg *Config, log *slog.Logger) error {
	pool, err := pkgpostgres.Open(ctx, cfg.Postgres, name)
	if err != nil {
		return err
	}
	defer pool.Close()
	if err := pkgpostgres.Migrate(ctx, pool, postgres.Migrations...); err != nil {
		return err
	}
	if err := pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: kafka.ReservationEvents}); err != nil {
		return fmt.Errorf("topics: %w", err)
	}
	log.InfoContext(ctx, "tables and topics are there", "topic", kafka.ReservationEvents)
	return nil
}
