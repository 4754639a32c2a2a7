package postgres_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/clocktest"
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
	// holdFor is how long a hold lives where the event does not say.
	holdFor = 5 * time.Minute
)

// opening is when the clock of every test starts: far from the real time, so that a statement which
// asks the database for the time instead of the clock is noticed.
var opening = time.Date(2041, 3, 14, 19, 0, 0, 0, time.UTC)

// bundle is a service on a database of its own, with a clock that its tests move.
type bundle struct {
	clock        *clocktest.Clock
	pool, reads  *pgxpool.Pool
	statements   *statements // of both pools
	used         *usage      // of pool
	store        *postgres.Store
	holds        *postgres.Holds
	events       *event.Service
	reservations *reservation.Service
}

func setup(t *testing.T) *bundle {
	t.Helper()
	// Tests hold locks while they look at who waits for them, which takes as long as the machine does.
	url := postgrestest.URL(t, postgres.Migrations...) + "&statement_timeout=1min&idle_in_transaction_session_timeout=1min"
	b := &bundle{clock: clocktest.New(opening), statements: &statements{}}
	b.used = &usage{statements: b.statements}
	open := func(conns int, tracer pgx.QueryTracer) *pgxpool.Pool {
		pool, err := pkgpostgres.Open(t.Context(), pkgpostgres.Config{URL: url, MaxConns: conns}, t.Name(), pkgpostgres.Indexed(),
			func(c *pgxpool.Config) { c.ConnConfig.Tracer = tracer })
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		return pool
	}
	b.pool, b.reads = open(16, b.used), open(8, b.statements)
	return replica(t, b)
}

// usage is the most connections that were taken at once.
type usage struct {
	*statements

	taken, peak int
}

// TraceAcquireStart implements pgxpool.AcquireTracer.
func (*usage) TraceAcquireStart(ctx context.Context, _ *pgxpool.Pool, _ pgxpool.TraceAcquireStartData) context.Context {
	return ctx
}

// TraceAcquireEnd implements pgxpool.AcquireTracer.
func (u *usage) TraceAcquireEnd(_ context.Context, _ *pgxpool.Pool, data pgxpool.TraceAcquireEndData) {
	if data.Err == nil {
		u.mu.Lock()
		defer u.mu.Unlock()
		u.taken++
		u.peak = max(u.peak, u.taken)
	}
}

// TraceRelease implements pgxpool.ReleaseTracer.
func (u *usage) TraceRelease(*pgxpool.Pool, pgxpool.TraceReleaseData) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.taken--
}

// most forgets what was before and returns the most connections that fn takes at once.
func (u *usage) most(fn func()) int {
	u.mu.Lock()
	u.peak = u.taken
	u.mu.Unlock()
	fn()
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.peak
}

// statements counts what is sent to the database, by the queries' names.
type statements struct {
	mu    sync.Mutex
	names map[string]int
}

// TraceQueryStart implements pgx.QueryTracer.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if rest, ok := strings.CutPrefix(data.SQL, "-- name: "); ok {
		name, _, _ := strings.Cut(rest, " ")
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.names == nil {
			s.names = make(map[string]int)
		}
		s.names[name]++
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// sent is how often a query was sent.
func (s *statements) sent(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.names[name]
}

// replica is one more process on the same database and clock.
func replica(t *testing.T, of *bundle) *bundle {
	t.Helper()
	store := postgres.NewStore(of.pool, postgres.Options{
		Reads: of.reads, HoldFor: holdFor,
		// Each reading is later than the one before, for snapshots are told apart by their time.
		Now: func() time.Time { return of.clock.Advance(time.Microsecond) },
	})
	b := &bundle{
		clock: of.clock, pool: of.pool, reads: of.reads, statements: of.statements, used: of.used, store: store,
		holds: postgres.NewHolds(store, 12), events: event.NewService(store, store, store),
	}
	b.reservations = reservation.NewService(b.events, b.holds, store, extension)
	t.Cleanup(func() { require.NoError(t, b.holds.Close(context.Background())) })
	return b
}

func ptr[T any](v T) *T { return &v }

// spec is a sale that is open when the clock starts.
func spec(id string, seating event.Seating, sections ...event.SectionSpec) event.Spec {
	return event.Spec{
		ID: id, Title: "Concert " + id, Artist: "Artist", Venue: "Hall", StartsAt: opening.Add(48 * time.Hour),
		SalesOpenAt: opening.Add(-time.Hour), SalesCloseAt: opening.Add(24 * time.Hour), Seating: seating, Currency: "KRW", MaxPerUser: 4,
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

// together calls fn with 0 to n-1 at the same time and returns how each call ended.
func together(n int, fn func(i int) error) []error {
	results := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { results[i] = fn(i) })
	}
	wg.Wait()
	return results
}

// succeeded counts the calls without an error; every error must be the expected one.
func succeeded(t *testing.T, results []error, expected error) int {
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

// requireIn fails unless at is d from now, but for the readings of the clock in between.
func (b *bundle) requireIn(t *testing.T, d time.Duration, at time.Time) {
	t.Helper()
	require.WithinDuration(t, b.clock.Now().Add(d), at, time.Millisecond)
}

// waitingForLocks counts the sessions that wait for a lock.
func (b *bundle) waitingForLocks(t *testing.T) int64 {
	t.Helper()
	return b.count(t, `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`)
}

func split(list string) []string { return strings.Split(list, ",") }
