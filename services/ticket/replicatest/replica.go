// Package replicatest runs ticket's code in the process of a test that drives several services at
// once. Its clock and its connections are the test's, so that hours pass in moments, and a process
// can die between any two of its writes.
package replicatest

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"google.golang.org/grpc"

	"urr.guru/pkg/kafka"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
	"urr.guru/services/ticket/internal/event"
	ticketkafka "urr.guru/services/ticket/internal/kafka"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/events"
	"urr.guru/services/ticket/internal/postgres/expiry"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/refunds"
	"urr.guru/services/ticket/internal/postgres/reservations"
	payments "urr.guru/services/ticket/internal/postgres/settlement"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/rpc"
	"urr.guru/services/ticket/internal/settlement"
)

// Migrations create the service's database.
var Migrations = postgres.Migrations

const (
	holdConcurrency = 4
	sweepBatch      = 50
)

// Replica is one process of the service, without its servers, its relay and its loops.
type Replica struct {
	events       *event.Service
	places       *events.Store
	reservations *reservation.Service
	targets      settlement.Targets
	refunds      *refunds.Store
	settle       func(context.Context, []kafka.Record) error
	expirer      *expiry.Store
	holds        *holds.Store
}

// New makes a replica on a database, with a clock that it may call at any time.
func New(pool *pgxpool.Pool, now func() time.Time) *Replica {
	database := postgres.New(pool, postgres.Options{Now: now})
	store := events.NewStore(database)
	r := &Replica{
		events: event.NewService(store, store, store), places: store, refunds: refunds.NewStore(database), expirer: expiry.NewStore(database),
		holds: holds.NewStore(database, holdConcurrency, storetest.HoldFor),
	}
	r.reservations = reservation.NewService(r.events, r.holds, reservations.NewStore(database), storetest.MaxExtension)
	r.targets = settlement.Targets{settlement.Reservation: settlement.Reservations{Service: r.reservations}}
	r.settle = ticketkafka.Handle(r.targets, payments.NewStore(database))
	return r
}

// Register registers the RPCs of sales and payments.
func (r *Replica) Register(s grpc.ServiceRegistrar) {
	ticketv1.RegisterEventAdminServiceServer(s, rpc.NewEventAdmin(r.events))
	ticketv1.RegisterHoldServiceServer(s, rpc.NewHolds(r.reservations))
	ticketv1.RegisterReservationServiceServer(s, rpc.NewReservations(r.reservations))
	ticketv1.RegisterPayableServiceServer(s, rpc.NewPayables(r.targets, r.refunds, settled{}))
}

// settled is a backlog without any event.
type settled struct{}

func (settled) Age() (oldest, measuredAgo time.Duration, known bool) { return 0, 0, true }

// Consume handles records of payment-events.
func (r *Replica) Consume(ctx context.Context, recs []kafka.Record) error { return r.settle(ctx, recs) }

// Sweep ends due holds, and releases places that were given back.
func (r *Replica) Sweep(ctx context.Context) error {
	if _, err := r.expirer.ExpireDue(ctx, sweepBatch); err != nil {
		return fmt.Errorf("sweep: %w", err)
	}
	if err := r.places.ReleaseReturns(ctx); err != nil {
		return fmt.Errorf("release: %w", err)
	}
	return nil
}

// Close waits for the calls that are under way.
func (r *Replica) Close(ctx context.Context) error { return r.holds.Close(ctx) }

// Violations lists the rows that violate an invariant of the service, in one snapshot of the
// database. No event may have been deleted from the outbox.
func Violations(ctx context.Context, pool *pgxpool.Pool, now func() time.Time) (string, error) {
	return storetest.Violations(ctx, pool, now)
}
