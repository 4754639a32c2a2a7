package postgres_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/reservation"
)

const (
	group = "ticket-service-group"
	// extension is by how much payments may extend a hold in all.
	extension = 30 * time.Minute
	// patience is how long a test waits for what comes at once, unless the machine is busy or something is wrong.
	patience = 30 * time.Second
)

// bundle is a service on a database of its own.
type bundle struct {
	pool         *pgxpool.Pool
	store        *postgres.Store
	holds        *postgres.Holds
	events       *event.Service
	reservations *reservation.Service
}

func setup(t *testing.T) *bundle {
	t.Helper()
	// Tests hold locks while they look at who waits for them, which takes as long as the machine does.
	url := postgrestest.URL(t, postgres.Migrations...) + "&statement_timeout=1min&idle_in_transaction_session_timeout=1min"
	pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: url, MaxConns: 16}, t.Name())
	require.NoError(t, err)
	t.Cleanup(pool.Close)
	return replica(t, pool)
}

// replica is one more process on the same database.
func replica(t *testing.T, pool *pgxpool.Pool) *bundle {
	t.Helper()
	store := postgres.NewStore(pool, postgres.Options{ReservationTopic: "reservation-events", HoldFor: 5 * time.Minute})
	b := &bundle{pool: pool, store: store, holds: postgres.NewHolds(store, 12), events: event.NewService(store, store, store)}
	b.reservations = reservation.NewService(b.events, b.holds, store, extension)
	t.Cleanup(func() { require.NoError(t, b.holds.Close(context.Background())) })
	return b
}

func ptr[T any](v T) *T { return &v }

// spec is a sale that is open, without sections.
func spec(id string, seating event.Seating, sections ...event.SectionSpec) event.Spec {
	now := time.Now()
	return event.Spec{
		ID: id, Title: "Concert " + id, Artist: "Artist", Venue: "Hall", StartsAt: now.Add(48 * time.Hour),
		SalesOpenAt: now.Add(-time.Hour), SalesCloseAt: now.Add(24 * time.Hour), Seating: seating, Currency: "KRW", MaxPerUser: 4,
		Sections: sections,
	}
}

func rows(name string, price int64, n, perRow int32) event.SectionSpec {
	return event.SectionSpec{Name: name, Price: price, Rows: &n, SeatsPerRow: &perRow}
}

func admissions(name string, price, capacity int64) event.SectionSpec {
	return event.SectionSpec{Name: name, Price: price, Capacity: &capacity}
}

func (b *bundle) put(t *testing.T, s event.Spec) {
	t.Helper()
	_, err := b.events.Put(t.Context(), s)
	require.NoError(t, err)
}

func (b *bundle) hold(ctx context.Context, user string, seats ...string) (*reservation.Reservation, error) {
	return b.holds.HoldSeats(ctx, reservation.SeatsRequest{EventID: "e", UserID: user, SlotID: "slot-" + user, SeatIDs: seats})
}

func (b *bundle) mustHold(t *testing.T, user string, seats ...string) *reservation.Reservation {
	t.Helper()
	r, err := b.hold(t.Context(), user, seats...)
	require.NoError(t, err)
	return r
}

func (b *bundle) best(ctx context.Context, user string, n int) (*reservation.Reservation, error) {
	return b.reservations.HoldBest(ctx, reservation.BestRequest{
		EventID: "e", UserID: user, SlotID: "slot-" + user, Section: "A", Quantity: n, Adjacent: true,
	})
}

// lapse puts the end of an unpaid reservation into the past, on its seats too.
func (b *bundle) lapse(t *testing.T, id uuid.UUID) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		past := time.Now().Add(-time.Second)
		tag, err := tx.Exec(t.Context(), `UPDATE reservations SET expires_at = $2 WHERE reservation_id = $1 AND status IN ('HELD', 'PAYING')`, id, past)
		if err != nil || tag.RowsAffected() != 1 {
			return fmt.Errorf("lapse %s: %v, %w", id, tag, err)
		}
		_, err = tx.Exec(t.Context(), `UPDATE seats SET held_until = $2 WHERE reservation_id = $1`, id, past)
		return err
	}))
}

func (b *bundle) find(t *testing.T, id uuid.UUID) *reservation.Reservation {
	t.Helper()
	r, _, err := b.store.Find(t.Context(), id)
	require.NoError(t, err)
	return r
}

// payment is a payment of all that a reservation costs.
func payment(r *reservation.Reservation) reservation.Payment {
	return reservation.Payment{ID: uuid.New(), UserID: r.UserID, EventID: r.EventID, Amount: r.Amount, Currency: r.Currency}
}

func (b *bundle) paid(t *testing.T, r *reservation.Reservation, p reservation.Payment) {
	t.Helper()
	b.settle(t, reservation.PaymentEvent{Key: uuid.NewString(), ReservationID: r.ID, Payment: p})
}

func (b *bundle) settle(t *testing.T, events ...reservation.PaymentEvent) {
	t.Helper()
	require.NoError(t, b.store.Settle(t.Context(), group, events))
}

// told is an event as the outbox has it.
type told struct {
	Type          string   `json:"type"`
	ReservationID string   `json:"reservationId"`
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
}

// told returns the events of a reservation, in order.
func (b *bundle) told(t *testing.T, id uuid.UUID) []told {
	t.Helper()
	rows, err := b.pool.Query(t.Context(), `SELECT payload, topic, type, entity_version FROM outbox WHERE key = $1 ORDER BY id`, id.String())
	require.NoError(t, err)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (told, error) {
		var e told
		var payload, topic, typ string
		var version int64
		if err := row.Scan(&payload, &topic, &typ, &version); err != nil {
			return e, err
		}
		err := json.Unmarshal([]byte(payload), &e)
		require.Equal(t, "reservation-events", topic)
		require.Equal(t, typ, e.Type)
		require.Equal(t, version, e.Version)
		return e, err
	})
	require.NoError(t, err)
	return list
}

// types lists what happened to a reservation.
func (b *bundle) types(t *testing.T, id uuid.UUID) []string {
	t.Helper()
	var types []string
	for _, e := range b.told(t, id) {
		types = append(types, e.Type)
	}
	return types
}

func (b *bundle) count(t *testing.T, sql string, args ...any) int64 {
	t.Helper()
	var n int64
	require.NoError(t, b.pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

func split(list string) []string { return strings.Split(list, ",") }
