package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"urr.guru/pkg/deadletter"
	"urr.guru/pkg/idempotency/answers"
	"urr.guru/pkg/inbox"
	pkgkafka "urr.guru/pkg/kafka"
	"urr.guru/pkg/lifecycle"
	"urr.guru/pkg/outbox"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/plan/planned"
	pkgpostgres "urr.guru/pkg/postgres"
	topics "urr.guru/proto/events"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/cancellation"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/kafka"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/cancellations"
	"urr.guru/services/ticket/internal/postgres/comps"
	"urr.guru/services/ticket/internal/postgres/entitlements"
	"urr.guru/services/ticket/internal/postgres/events"
	"urr.guru/services/ticket/internal/postgres/expiry"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/orders"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/postgres/scans"
	"urr.guru/services/ticket/internal/postgres/voids"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/rpc"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

const name = "ticket"

// Run serves the RPCs and runs the background workers until ctx ends.
func Run(ctx context.Context, cfg *Config, log *slog.Logger) error {
	a, err := lifecycle.Start(ctx, name, cfg.Config, log)
	if err != nil {
		return err
	}
	pool, database, err := openDatabase(ctx, a, cfg)
	if err != nil {
		return err
	}
	eventStore := events.NewStore(database)
	eventService := event.NewService(eventStore, eventStore, eventStore)
	eventService.StatementRoom = event.StatementRoom(cfg.StatementPrefix)
	holder := holds.NewStore(database, cfg.HoldConcurrency, cfg.holdDuration())
	a.OnClose("holds", holder.Close)
	membershipService := startMemberships(a, cfg, database, log)
	entitlementService := startEntitlements(a, cfg, eventService, membershipService, database, log)
	reservationService := reservation.NewService(eventService, entitlementService, holder, purchases.NewReservations(database), cfg.HoldMaxExtension)
	transferService := startTransfers(a, cfg, database, entitlementService, log)
	targets := targetsOf(reservationService, transferService, membershipService)
	paymentStore := purchases.NewSettlement(database, cfg.HoldMaxExtension)
	consumer, err := kafka.NewConsumer(cfg.Kafka, targets, paymentStore, log)
	if err != nil {
		return err
	}
	commitAge := pkgkafka.NewCommitAge(cfg.Kafka, kafka.Group, topics.Payments, time.Now)
	a.Go("consumer", consumer.Run)
	a.Go("commit age", commitAge.Run)
	a.Go("inbox", inbox.Pruner(pool, log))
	a.Go("idempotency keys", answers.Pruner(pool, log))
	startSweepers(a, cfg, database, eventStore, log)
	startCancellationWalker(a, cfg, database, log)
	server, err := a.GRPC(cfg.RPC)
	if err != nil {
		return err
	}
	if err := deadletter.Attach(a, server, deadLetters(cfg), inbox.NewRedrivenLetters(pool)); err != nil {
		return err
	}
	ticketv1.RegisterEventServiceServer(server, rpc.NewEvents(eventService))
	ticketv1.RegisterEventAdminServiceServer(server, rpc.NewEventAdmin(eventService))
	ticketv1.RegisterHoldServiceServer(server, rpc.NewHolds(reservationService))
	ticketv1.RegisterReservationServiceServer(server, rpc.NewReservations(reservationService))
	ticketv1.RegisterPayableServiceServer(server, rpc.NewPayables(
		targets, purchases.NewRefunds(database), membershipService, commitAge, eventStore, paymentStore, cfg.HoldMaxExtension))
	ticketv1.RegisterTransferServiceServer(server, rpc.NewTransfers(transferService))
	registerMemberships(server, membershipService, entitlementService)
	ticketService := registerTickets(server, database, cfg.keys)
	senders, err := startNotices(a, cfg, database, ticketService, log)
	if err != nil {
		return err
	}
	ticketv1.RegisterWebhookServiceServer(server, rpc.NewWebhooks(senders.webhooks))
	log.InfoContext(ctx, "ticket codes are signed", "public_keys", cfg.keys.Public())
	lifecycle.FollowSecrets(a, cfg, func(next *Config) error {
		ticketService.Rekey(next.keys)
		senders.rekey(next)
		log.InfoContext(ctx, "ticket codes are signed", "public_keys", next.keys.Public())
		return server.Rekey(next.RPC.Accept)
	})
	return a.Run(ctx)
}

// openDatabase connects to PostgreSQL, and starts the relay that publishes the Kafka events of its
// outbox.
func openDatabase(ctx context.Context, a *lifecycle.App, cfg *Config) (*pgxpool.Pool, *postgres.Database, error) {
	pool, err := pkgpostgres.Attach(ctx, a, cfg.Postgres, pkgpostgres.Indexed())
	if err != nil {
		return nil, nil, err
	}
	reads, err := pkgpostgres.AttachReads(ctx, a, cfg.readPoolConfig(), pkgpostgres.Indexed())
	if err != nil {
		return nil, nil, err
	}
	relay, err := outbox.Attach(a, cfg.Kafka, pool)
	if err != nil {
		return nil, nil, err
	}
	return pool, postgres.New(pool, postgres.Options{Reads: reads, Published: relay.Signal}), nil
}

// targetsOf returns the handlers of payments, by the type of what is paid.
func targetsOf(r *reservation.Service, t *transfer.Service, m *membership.Service) purchase.Targets {
	return purchase.Targets{purchase.Reservation: r, purchase.Transfer: t, purchase.Membership: m}
}

func registerMemberships(server grpc.ServiceRegistrar, s *membership.Service, e *entitlement.Service) {
	ticketv1.RegisterMembershipServiceServer(server, rpc.NewMemberships(s))
	ticketv1.RegisterMembershipAdminServiceServer(server, rpc.NewMembershipAdmin(s))
	ticketv1.RegisterEntitlementServiceServer(server, rpc.NewEntitlements(e))
	ticketv1.RegisterEntitlementAdminServiceServer(server, rpc.NewEntitlementAdmin(e))
}

// startEntitlements starts the worker that packs and deletes replaced lists of users, and returns the
// service that decides who may buy in presales.
func startEntitlements(
	a *lifecycle.App, cfg *Config, events *event.Service, members *membership.Service, database *postgres.Database, log *slog.Logger,
) *entitlement.Service {
	store := entitlements.NewStore(database)
	a.Go("lists of entitlements", store.Pruner(cfg.ListRetention, log))
	return entitlement.NewService(events, members, store)
}

// registerTickets registers the RPCs about tickets, and returns the service that signs their codes.
func registerTickets(server grpc.ServiceRegistrar, database *postgres.Database, keys ticket.Keys) *ticket.Service {
	s := ticket.NewService(purchases.NewTickets(database), keys)
	ticketv1.RegisterTicketServiceServer(server, rpc.NewTickets(s))
	ticketv1.RegisterCheckInServiceServer(server, rpc.NewCheckIns(checkin.NewService(scans.NewStore(database), s)))
	ticketv1.RegisterCompServiceServer(server, rpc.NewComps(comp.NewService(comps.NewStore(database))))
	ticketv1.RegisterOrderAdminServiceServer(server, rpc.NewOrders(order.NewService(orders.NewStore(database), s), voids.NewStore(database)))
	return s
}

// startSweepers starts the background workers that expire holds, count sold places, put returned
// places on sale again, publish counts of check-ins, and delete old rows.
func startSweepers(a *lifecycle.App, cfg *Config, database *postgres.Database, store *events.Store, log *slog.Logger) {
	sweeper := &reservation.Sweeper{
		Expirer: expiry.NewStore(database), Every: cfg.SweepInterval, Log: log,
		ObserveInconsistent: func(n int) { inconsistent.Set(float64(n)) },
	}
	soldPlaces := &placesGauge{count: store.PlacesByEvent, log: log}
	a.Go("sweeper", sweeper.Run)
	a.Go("sold", soldPlaces.run)
	a.Go("expected openings", (&planned.Exporter{Kind: plan.Sale, Find: store.ExpectedOpenings, Now: time.Now}).Run(log))
	a.Go("places given back", store.Releaser(cfg.SweepInterval, log))
	a.Go("seat changes", store.Pruner(log))
	a.Go("acts on lines", store.ActPruner(log))
	a.Go("check-ins", scans.NewStore(database).Counter(log))
	a.Go("claims of refunds", purchases.NewRefunds(database).Pruner(log))
}

// startTransfers starts the workers that end and count offers of tickets to other users, and
// returns the service that makes the offers.
func startTransfers(
	a *lifecycle.App, cfg *Config, database *postgres.Database, entitlements *entitlement.Service, log *slog.Logger,
) *transfer.Service {
	store := purchases.NewTransfers(database)
	s := transfer.NewService(store, entitlements, cfg.HoldMaxExtension)
	a.Go("transfers", s.Sweeper(cfg.SweepInterval, log))
	a.Go("offers of tickets", reportOffers(store.Count, log))
	return s
}

// startMemberships starts the workers that end and count unpaid purchases of memberships, and
// returns the service that sells memberships.
func startMemberships(a *lifecycle.App, cfg *Config, database *postgres.Database, log *slog.Logger) *membership.Service {
	store := purchases.NewMemberships(database)
	s := membership.NewService(store, store, cfg.HoldMaxExtension)
	a.Go("memberships", s.Sweeper(cfg.SweepInterval, log))
	a.Go("purchases of memberships", reportPurchases(store.Count, log))
	return s
}

// startCancellationWalker starts workers that end and count holds and orders of cancelled events.
func startCancellationWalker(a *lifecycle.App, cfg *Config, database *postgres.Database, log *slog.Logger) {
	store := cancellations.NewStore(database)
	walker := &cancellation.Walker{Store: store, Holds: expiry.NewStore(database), Every: cfg.SweepInterval, Log: log}
	a.Go("cancelled events", walker.Run)
	a.Go("left of cancelled events", reportRemaining(store.CountRemaining, log))
}

// Outbox returns the operators' command for Kafka events that were put aside (parked) because one
// of the same key could not be published.
func Outbox() lifecycle.Command[Config] {
	return lifecycle.Command[Config]{
		Usage: outbox.Usage,
		Run:   outbox.OperatorCommand(name, func(cfg *Config) pkgpostgres.Config { return cfg.Postgres }),
	}
}

// deadLetters says where to find the Kafka events that this service's consumers could not process.
func deadLetters(cfg *Config) deadletter.Source {
	return deadletter.Source{Kafka: cfg.Kafka, Group: kafka.Group, Topics: topics.ConsumedBy(name)}
}

// Kafka returns the command with which operators process dead letters again (redrive them).
func Kafka() lifecycle.Command[Config] {
	return deadletter.Command(name, deadLetters, func(ctx context.Context, cfg *Config) (deadletter.Marks, func(), error) {
		return inbox.OpenRedrivenLetters(ctx, cfg.Postgres, name)
	})
}

// Migrate creates and updates the tables and the topics of this service.
func Migrate(ctx context.Context, cfg *Config, _ *slog.Logger) error {
	if err := pkgpostgres.MigrateOnce(ctx, cfg.Postgres, name, postgres.Migrations...); err != nil {
		return err
	}
	return pkgkafka.EnsureTopics(ctx, cfg.Kafka, pkgkafka.Topic{Name: topics.Reservations}, pkgkafka.Topic{Name: topics.Transfers},
		pkgkafka.Topic{Name: topics.Memberships}, pkgkafka.TopicOfRedriven(kafka.Group))
}
