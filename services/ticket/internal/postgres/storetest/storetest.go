// Package storetest runs all stores and services of this module on a new database, for tests of the
// stores.
package storetest

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/cancellation"
	"urr.guru/services/ticket/internal/comp"
	"urr.guru/services/ticket/internal/entitlement"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/membership"
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
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/transfer"
	"urr.guru/services/ticket/internal/void"
)

const (
	// Group is the consumer group of payment events.
	Group = "ticket-service-group"
	// MaxExtension is the longest time by which payments may extend a hold.
	MaxExtension = 30 * time.Minute
	// HoldFor is the length of a hold when the event does not set one.
	HoldFor = 5 * time.Minute
)

// Start is the initial time of every test's clock. It is far from the real time, so that tests
// notice a statement that uses the database's clock instead of the test's.
var Start = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

// Service stands for one process: all stores and services on a database, with the test's clock.
type Service struct {
	Clock            *testkit.Clock
	Pool, Reads      *pgxpool.Pool
	Statements       *Statements  // sent to both pools
	Connections      *Connections // of Pool
	Database         *postgres.Database
	EventStore       *events.Store
	Holds            *holds.Store
	Expiry           *expiry.Store
	Tickets          *purchases.Tickets
	ReservationStore *purchases.Reservations
	Settlement       *purchases.Settlement
	Refunds          *purchases.Refunds
	Walker           *cancellation.Walker
	Scans            *scans.Store
	Comps            *comp.Service
	Orders           *orders.Store
	Voids            *voids.Store
	TransferStore    *purchases.Transfers
	Transfers        *transfer.Service
	MembershipStore  *purchases.Memberships
	Memberships      *membership.Service
	Events           *event.Service
	Entitlements     *entitlement.Service
	Reservations     *reservation.Service
}

// New makes a service on a fresh database.
func New(t *testing.T) *Service {
	t.Helper()
	url := postgrestest.PatientURL(t, postgres.Migrations...)
	statements := &Statements{names: make(map[string]int)}
	s := &Service{Clock: testkit.NewClock(Start), Statements: statements, Connections: &Connections{Statements: statements}}
	open := func(conns int, tracer pgx.QueryTracer) *pgxpool.Pool {
		pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: url, MaxConns: conns}, t.Name(), pkgpostgres.Indexed(),
			func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	s.Pool, s.Reads = open(16, s.Connections), open(8, statements)
	return s.Replica(t)
}

// Replica makes one more process on the same database and clock.
func (s *Service) Replica(t *testing.T) *Service {
	t.Helper()
	database := postgres.New(s.Pool, postgres.Options{
		Reads: s.Reads,
		// Each reading advances the test clock by 1 µs, so that no two snapshots have the same time.
		Now: func() time.Time { return s.Clock.Advance(time.Microsecond) },
	})
	other := &Service{
		Clock: s.Clock, Pool: s.Pool, Reads: s.Reads, Statements: s.Statements, Connections: s.Connections, Database: database,
		EventStore: events.NewStore(database), Expiry: expiry.NewStore(database),
		Holds:   holds.NewStore(database, 12, HoldFor, holds.WithTimeout(time.Minute)),
		Tickets: purchases.NewTickets(database), ReservationStore: purchases.NewReservations(database), Settlement: purchases.NewSettlement(database, MaxExtension),
		Refunds: purchases.NewRefunds(database), Scans: scans.NewStore(database), Orders: orders.NewStore(database),
		Voids: voids.NewStore(database),
		Comps: comp.NewService(comps.NewStore(database)), TransferStore: purchases.NewTransfers(database),
		MembershipStore: purchases.NewMemberships(database),
	}
	other.Memberships = membership.NewService(other.MembershipStore, other.MembershipStore, MaxExtension)
	other.Events = event.NewService(other.EventStore, other.EventStore, other.EventStore)
	other.Walker = &cancellation.Walker{Store: cancellations.NewStore(database), Holds: other.Expiry, Log: slog.New(slog.DiscardHandler)}
	other.Entitlements = entitlement.NewService(other.Events, other.Memberships, entitlements.NewStore(database))
	other.Transfers = transfer.NewService(other.TransferStore, other.Entitlements, MaxExtension)
	other.Reservations = reservation.NewService(other.Events, other.Entitlements, other.Holds, other.ReservationStore, MaxExtension)
	t.Cleanup(func() { require.NoError(t, other.Holds.Close(context.Background())) })
	return other
}

// Spec returns an event whose sale is open at Start, and whose places are for sale again as soon as
// they are given back.
func Spec(id string, seating event.Seating, sections ...event.Section) event.Event {
	return event.Event{ID: id, Spec: event.Spec{
		Title: "Concert " + id, Artist: "Artist", Venue: "Hall", StartsAt: Start.Add(48 * time.Hour),
		SalesOpenAt: Start.Add(-time.Hour), SalesCloseAt: Start.Add(24 * time.Hour), Seating: seating, Currency: "KRW", MaxPerUser: 4,
		ReturnWithin: new(int32(0)), Sections: sections,
	}}
}

// Rows returns a section with n rows of perRow seats.
func Rows(name string, price int64, n, perRow int) event.Section {
	return event.Section{Name: name, Price: price, Rows: n, SeatsPerRow: perRow}
}

// Admissions returns a section without seats (general admission).
func Admissions(name string, price, capacity int64) event.Section {
	return event.Section{Name: name, Price: price, Capacity: capacity}
}

func (s *Service) Put(t *testing.T, spec event.Event) {
	t.Helper()
	_, err := s.Events.Put(t.Context(), spec.ID, spec.Spec, nil)
	require.NoError(t, err)
}

// HoldSeats holds seats of the event e.
func (s *Service) HoldSeats(ctx context.Context, user string, seats ...string) (*reservation.Reservation, error) {
	return s.Holds.HoldSeats(ctx, reservation.SeatsRequest{EventID: "e", UserID: user, SlotID: "slot-" + user, SeatIDs: seats})
}

func (s *Service) MustHoldSeats(t *testing.T, user string, seats ...string) *reservation.Reservation {
	t.Helper()
	held, err := s.HoldSeats(t.Context(), user, seats...)
	require.NoError(t, err)
	return held
}

// HoldBest holds n adjacent seats, or admissions, of section A of the event e.
func (s *Service) HoldBest(ctx context.Context, user string, n int) (*reservation.Reservation, error) {
	return s.Reservations.HoldBest(ctx, reservation.BestRequest{
		EventID: "e", UserID: user, SlotID: "slot-" + user, Section: "A", Quantity: n, Adjacent: true,
	})
}

// Concurrently calls fn with 0 to n-1 at the same time and returns the calls' errors.
func Concurrently(n int, fn func(i int) error) []error {
	results := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i] = fn(i) })
	}
	wg.Wait()
	return results
}

// Races returns how often each race is run: RACES times if this variable is set, or 20 times.
func Races(t *testing.T) int {
	t.Helper()
	text := os.Getenv("RACES") //nolint:forbidigo // tests have no Config
	if text == "" {
		return 20
	}
	n, err := strconv.Atoi(text)
	require.NoError(t, err)
	return n
}

// CountSucceeded counts the calls without an error; every error must be the expected one.
func CountSucceeded(t *testing.T, results []error, expected error) int {
	t.Helper()
	n := 0
	for _, err := range results {
		if err == nil {
			n++
			continue
		}
		require.ErrorIs(t, err, expected)
	}
	return n
}

func (s *Service) Find(t *testing.T, id uuid.UUID) *reservation.Reservation {
	t.Helper()
	found, _, err := s.ReservationStore.Find(t.Context(), id)
	require.NoError(t, err)
	return found
}

// Payment returns a new payment of a reservation's amount.
func Payment(r *reservation.Reservation) purchase.Payment {
	return purchase.Payment{ID: uuid.New(), UserID: r.UserID, EventID: r.EventID, Amount: r.Amount, Currency: r.Currency}
}

// Confirm applies the Kafka event that a payment of a reservation was confirmed.
func (s *Service) Confirm(t *testing.T, r *reservation.Reservation, p purchase.Payment) {
	t.Helper()
	s.Settle(t, settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p})
}

// Settle applies Kafka events about payments. Payments that they confirm count as begun.
func (s *Service) Settle(t *testing.T, events ...settlement.PaymentEvent) {
	t.Helper()
	for _, e := range events {
		if e.Confirms() {
			s.Begun(t, e)
		}
	}
	require.NoError(t, s.Settlement.Settle(t.Context(), Group, events))
}

// Begun records that the payment of an event was begun, as if another payment had been tried since.
func (s *Service) Begun(t *testing.T, e settlement.PaymentEvent) {
	t.Helper()
	require.NoError(t, s.MarkBegun(t.Context(), e))
}

// MarkBegun is Begun for other goroutines than the test's.
func (s *Service) MarkBegun(ctx context.Context, e settlement.PaymentEvent) error {
	kind := cmp.Or(e.Type, purchase.Reservation)
	sql := fmt.Sprintf(`UPDATE %[1]ss SET begun = begun || $2::uuid WHERE %[1]s_id = $1 AND $2 <> ALL (begun)`, kind)
	_, err := s.Pool.Exec(ctx, sql, e.ReferenceID, e.Payment.ID)
	return err
}

// RefundRequest returns a request for a refund of all valid tickets of a payment.
func (s *Service) RefundRequest(p purchase.Payment, cause refund.Cause) refund.Request {
	return refund.Request{
		ID: uuid.New(), PaymentID: p.ID, Cause: cause, UserID: p.UserID, Whole: cause == refund.ByHand, AskedAt: s.Clock.Now(),
	}
}

func (s *Service) BeginRefund(t *testing.T, req refund.Request) *refund.Claim {
	t.Helper()
	c, err := s.Refunds.Begin(t.Context(), req)
	require.NoError(t, err)
	return c
}

// MadeRefund returns the Kafka event that the payment service has made a claimed refund.
func MadeRefund(c *refund.Claim, p purchase.Payment) settlement.PaymentEvent {
	return settlement.PaymentEvent{Key: uuid.NewString(), Payment: p, Refunded: true, Cause: c.Cause, RefundID: c.ID}
}

// Refund claims all valid tickets of a payment and applies the event that their refund was made.
func (s *Service) Refund(t *testing.T, p purchase.Payment, cause refund.Cause) *refund.Claim {
	t.Helper()
	c := s.BeginRefund(t, s.RefundRequest(p, cause))
	require.Equal(t, refund.Begun, c.Status, "%s %v", c.Reason, c.Excluded)
	s.Settle(t, MadeRefund(c, p))
	return c
}

// Void voids a ticket or an order, as the operator "op".
func (s *Service) Void(t *testing.T, req void.Request) void.Voided {
	t.Helper()
	req.Operator, req.Reason = "op", "stolen card"
	v, err := s.Voids.Void(t.Context(), req)
	require.NoError(t, err)
	return v
}

// OutboxEvent is the payload of a Kafka event in the outbox.
type OutboxEvent struct {
	Type          string   `json:"type"`
	ReservationID string   `json:"reservationId"`
	Origin        string   `json:"origin"`
	UserID        string   `json:"userId"`
	SlotID        string   `json:"slotId"`
	Status        string   `json:"status"`
	SeatIDs       []string `json:"seatIds"`
	Section       string   `json:"section"`
	Quantity      int64    `json:"quantity"`
	Amount        int64    `json:"amount"`
	PaymentID     string   `json:"paymentId"`
	Reason        string   `json:"reason"`
	ExpiresAt     string   `json:"expiresAt"`
	Version       int64    `json:"version"`
	ClaimID       string   `json:"claimId"`
	Cause         string   `json:"cause"`
	// Items is nil if the event has none.
	Items []DueItem `json:"items"`
}

// DueItem is the amount that the payment service must refund for a ticket.
type DueItem struct {
	TicketID string `json:"ticketId"`
	Amount   int64  `json:"amount"`
}

// OutboxEvents returns the Kafka events about a reservation, oldest first.
func (s *Service) OutboxEvents(t *testing.T, id uuid.UUID) []OutboxEvent {
	t.Helper()
	rows, err := s.Pool.Query(t.Context(), `SELECT payload, topic, type, entity_version FROM outbox WHERE key = $1 ORDER BY id`, id.String())
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (OutboxEvent, error) {
		var e OutboxEvent
		var payload, topic, typ string
		var version int64
		if err := row.Scan(&payload, &topic, &typ, &version); err != nil {
			return e, err
		}
		err := json.Unmarshal([]byte(payload), &e)
		require.Equal(t, "reservation-events", topic)
		require.Equal(t, typ, e.Type)
		require.Equal(t, version, e.Version)
		if len(e.Items) == 0 {
			e.Items = nil
		}
		return e, err
	})
	require.NoError(t, err)
	return list
}

// EventTypes returns the types of the Kafka events about a reservation, oldest first.
func (s *Service) EventTypes(t *testing.T, id uuid.UUID) []string {
	t.Helper()
	var types []string
	for _, e := range s.OutboxEvents(t, id) {
		types = append(types, e.Type)
	}
	return types
}

// Count returns the number that a query selects.
func (s *Service) Count(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	var n int64
	require.NoError(t, s.Pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// RequireFromNow fails the test unless `at` is d after the test clock's time. It allows a
// difference of 1 ms, since each reading of the clock advances it a little.
func (s *Service) RequireFromNow(t *testing.T, d time.Duration, at time.Time) {
	t.Helper()
	require.WithinDuration(t, s.Clock.Now().Add(d), at, time.Millisecond)
}

func (s *Service) WaitingForLocks(t *testing.T) int64 {
	t.Helper()
	return s.Count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}
