package postgres_test

import (
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waittest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// blocked runs fn while this test's transaction holds the rows that sql locks, waits until fn waits for them, lets check look, releases
// the rows, and returns what fn returned.
func (b *bundle) blocked(t *testing.T, sql string, fn func() error, check func(), release ...string) error {
	t.Helper()
	tx, err := b.pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- fn() }()
	waittest.Until(t, func() bool { return b.waitingForLocks(t) == 1 }, "it waits for the lock")
	check()
	for _, sql := range release {
		_, err = tx.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	return <-done
}

// unlocked fails when somebody has locked the rows that sql would.
func (b *bundle) unlocked(t *testing.T, sql string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql+` FOR UPDATE NOWAIT`)
		return err
	}))
}

const advisoryLocks = `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
	WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted`

// The order is (event, user) → seats → reservation: whoever waits for one has not taken a later one yet.
func TestLockOrderOfSeats(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 10)))
	b.mustHold(t, "u", "A-1-3", "A-1-5")
	const lockLast, reservations = `SELECT 1 FROM seats WHERE seat_id = 'A-1-5' FOR UPDATE`, `SELECT 1 FROM reservations`

	b.clock.Advance(holdFor)
	require.NoError(t, b.blocked(t, lockLast,
		func() error { _, err := b.hold(t.Context(), "v", "A-1-7", "A-1-3"); return err },
		func() {
			require.EqualValues(t, 1, b.count(t, advisoryLocks), "the taker's own lock comes first")
			b.unlocked(t, reservations)
			b.unlocked(t, `SELECT 1 FROM seats WHERE seat_id = 'A-1-7'`)
		}), "a seat nobody wants is locked in its turn too, for it becomes free")

	r := b.mustHold(t, "u", "A-1-5")
	require.NoError(t, b.blocked(t, lockLast,
		func() error { return b.reservations.Cancel(t.Context(), "u", "", r.ID) },
		func() { b.unlocked(t, reservations) }))
	r = b.mustHold(t, "u", "A-1-5")
	require.NoError(t, b.blocked(t, lockLast,
		func() error {
			return b.store.Settle(t.Context(), group, []reservation.PaymentEvent{{Key: "k", ReservationID: r.ID, Payment: payment(r)}})
		},
		func() { b.unlocked(t, reservations) }))
	b.requireInvariants(t)
}

func TestLockOrderOfGeneralAdmission(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.General, admissions("A", 70, 10)))
	r, err := b.best(t.Context(), "u", 1)
	require.NoError(t, err)
	const lockSection, reservations = `SELECT 1 FROM sections FOR UPDATE`, `SELECT 1 FROM reservations`

	require.NoError(t, b.blocked(t, lockSection,
		func() error { _, err := b.best(t.Context(), "v", 1); return err },
		func() { require.EqualValues(t, 1, b.count(t, advisoryLocks)) }))
	require.NoError(t, b.blocked(t, lockSection,
		func() error { return b.reservations.Cancel(t.Context(), "u", "", r.ID) },
		func() { b.unlocked(t, reservations) }))
	b.requireInvariants(t)
}

// A hold is seen to be over, but its payment had begun in time and only commits now: it is not taken over.
func TestTakeoverYieldsToAPaymentThatCameFirst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 10)))
	r := b.mustHold(t, "u", "A-1-1", "A-1-2")
	b.clock.Advance(holdFor)
	err := b.blocked(t, `SELECT 1 FROM seats WHERE reservation_id IS NOT NULL ORDER BY idx FOR UPDATE`,
		func() error { _, err := b.hold(t.Context(), "v", "A-1-2", "A-1-3"); return err },
		func() {},
		`UPDATE reservations SET status = 'PAYING', payment_id = gen_random_uuid(), expires_at = expires_at + interval '10 min', version = 2`,
		`UPDATE seats SET held_until = held_until + interval '10 min' WHERE status = 'HELD'`)
	require.ErrorIs(t, err, reservation.ErrSeatTaken)
	require.Equal(t, reservation.Paying, b.find(t, r.ID).Status)
	b.requireInvariants(t)
}

// Who chooses the best seats does not wait for those that others are just about.
func TestBestSeatsDoNotWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 5)))
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE seat_id = 'A-1-3' FOR UPDATE`)
		require.NoError(t, err)
		r, err := b.best(t.Context(), "u", 2)
		require.NoError(t, err)
		require.NotContains(t, r.SeatIDs(), "A-1-3")
		_, err = b.best(t.Context(), "v", 3)
		require.ErrorIs(t, err, reservation.ErrTryAgain, "three are free, though one is locked")
		return nil
	}))
	n, err := b.store.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	b.requireInvariants(t)
}

func TestSweeperPassesOverWhatIsLocked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 5)))
	one, two := b.mustHold(t, "u1", "A-1-1", "A-1-2"), b.mustHold(t, "u2", "A-1-3", "A-1-4")
	b.clock.Advance(holdFor)
	require.NoError(t, pgx.BeginFunc(t.Context(), b.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE seat_id = 'A-1-2' FOR UPDATE`)
		require.NoError(t, err)
		n, err := b.store.ExpireDue(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		return nil
	}))
	require.Equal(t, reservation.Held, b.find(t, one.ID).Status)
	require.Equal(t, reservation.Expired, b.find(t, two.ID).Status)
	n, err := b.store.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	b.requireInvariants(t)
}
