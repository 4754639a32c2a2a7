// Package replicatest runs the code of the ticket service inside a test that drives several
// services. The test provides the clock and the connections, so that hours pass in moments, and a
// simulated process can die between any two of its writes.
package replicatest

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"urr.guru/pkg/config"
	"urr.guru/pkg/kafka"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/cancellation"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	ticketkafka "urr.guru/services/ticket/internal/kafka"
	"urr.guru/services/ticket/internal/membership"
	"urr.guru/services/ticket/internal/order"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/cancellations"
	"urr.guru/services/ticket/internal/postgres/entitlements"
	"urr.guru/services/ticket/internal/postgres/events"
	"urr.guru/services/ticket/internal/postgres/expiry"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/orders"
	"urr.guru/services/ticket/internal/postgres/purchases"
	"urr.guru/services/ticket/internal/postgres/scans"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/postgres/voids"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/rpc"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// Migrations creates the tables of the service's database.
var Migrations = postgres.Migrations

const (
	holdConcurrency = 4
	sweepBatch      = 50
)

// Replica simulates one process of the service, without servers, outbox relay and background loops.
type Replica struct {
	events       *event.Service
	eventStore   *events.Store
	reservations *reservation.Service
	targets      purchase.Targets
	payments     *purchases.Settlement
	refunds      *purchases.Refunds
	transfers    *transfer.Service
	memberships  *membership.Service
	codes        *ticket.Service
	doors        *checkin.Service
	orders       *order.Service
	voids        *voids.Store
	walker       *cancellation.Walker
	apply        func(context.Context, []kafka.Record) error
	expirer      *expiry.Store
	holds        *holds.Store
}

// New makes a replica on a database. now is its clock. Keys from seed sign the codes of tickets.
func New(pool *pgxpool.Pool, now func() time.Time, seed config.Secret) (*Replica, error) {
	keys, err := ticket.ParseKeys(seed)
	if err != nil {
		return nil, err
	}
	database := postgres.New(pool, postgres.Options{Now: now})
	store := events.NewStore(database)
	r := &Replica{
		events: event.NewService(store, store, store), eventStore: store, refunds: purchases.NewRefunds(database), expirer: expiry.NewStore(database),
		holds: holds.NewStore(database, holdConcurrency, storetest.HoldFor),
	}
	r.walker = &cancellation.Walker{Store: cancellations.NewStore(database), Holds: r.expirer, Log: slog.New(slog.DiscardHandler)}
	members := purchases.NewMemberships(database)
	r.memberships = membership.NewService(members, members, storetest.MaxExtension)
	entitled := entitlement.NewService(r.events, r.memberships, entitlements.NewStore(database))
	r.reservations = reservation.NewService(r.events, entitled, r.holds, purchases.NewReservations(database), storetest.MaxExtension)
	r.transfers = transfer.NewService(purchases.NewTransfers(database), entitled, storetest.MaxExtension)
	r.targets = purchase.Targets{purchase.Reservation: r.reservations, purchase.Transfer: r.transfers, purchase.Membership: r.memberships}
	r.codes = ticket.NewService(purchases.NewTickets(database), keys)
	r.doors = checkin.NewService(scans.NewStore(database), r.codes)
	r.orders, r.voids = order.NewService(orders.NewStore(database), r.codes), voids.NewStore(database)
	r.payments = purchases.NewSettlement(database, storetest.MaxExtension)
	r.apply = ticketkafka.Handle(r.targets, r.payments)
	return r, nil
}

// Register registers the RPC services for events, holds, reservations, payments, tickets,
// transfers, memberships, doors and orders with a server.
func (r *Replica) Register(s grpc.ServiceRegistrar) {
	ticketv1.RegisterEventAdminServiceServer(s, rpc.NewEventAdmin(r.events))
	ticketv1.RegisterHoldServiceServer(s, rpc.NewHolds(r.reservations))
	ticketv1.RegisterReservationServiceServer(s, rpc.NewReservations(r.reservations))
	ticketv1.RegisterTicketServiceServer(s, rpc.NewTickets(r.codes))
	ticketv1.RegisterTransferServiceServer(s, rpc.NewTransfers(r.transfers))
	ticketv1.RegisterMembershipServiceServer(s, rpc.NewMemberships(r.memberships))
	ticketv1.RegisterMembershipAdminServiceServer(s, rpc.NewMembershipAdmin(r.memberships))
	ticketv1.RegisterCheckInServiceServer(s, rpc.NewCheckIns(r.doors))
	ticketv1.RegisterOrderAdminServiceServer(s, rpc.NewOrders(r.orders, r.voids))
	ticketv1.RegisterPayableServiceServer(s, rpc.NewPayables(r.targets, r.refunds, r.memberships, emptyBacklog{}, r.eventStore, r.payments, storetest.MaxExtension))
}

// emptyBacklog is an rpc.Backlog in which all payment events are applied.
type emptyBacklog struct{}

func (emptyBacklog) Age() (oldest, measuredAgo time.Duration, known bool) { return 0, 0, true }

// Consume applies records of the topic payment-events.
func (r *Replica) Consume(ctx context.Context, recs []kafka.Record) error { return r.apply(ctx, recs) }

// Sweep ends holds, transfers and purchases of memberships whose time is over, ends what is left of
// cancelled events, and puts returned places on sale again.
func (r *Replica) Sweep(ctx context.Context) error {
	if _, err := r.expirer.ExpireDue(ctx, sweepBatch); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if err := r.transfers.ExpireDue(ctx); err != nil {
		return fmt.Errorf("transfers: %w", err)
	}
	if err := r.memberships.ExpireDue(ctx); err != nil {
		return fmt.Errorf("memberships: %w", err)
	}
	if err := r.walker.Walk(ctx); err != nil {
		return fmt.Errorf("cancelled events: %w", err)
	}
	if err := r.eventStore.ReleaseReturns(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Close waits for the calls that are under way.
func (r *Replica) Close(ctx context.Context) error { return r.holds.Close(ctx) }

// Violations lists the rows that violate an invariant of the service, in one snapshot of the
// database. Some invariants compare rows with the outbox, which must still have all events.
func Violations(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) (string, error) {
	return storetest.Violations(ctx, pool, now)
}
