package postgres_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
)

// whileLocked locks rows by sql in a transaction and starts fn. Once fn waits for a lock, it runs
// check and the release statements, commits, and returns fn's error.
func whileLocked(t *testing.T, svc *storetest.Service, sql string, fn func() error, check func(), release ...string) error {
	t.Helper()
	tx, err := svc.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), sql)
	require.NoError(t, err)
	done := make(chan error, 1)
	go func() { done <- fn() }()
	testkit.Until(t, func() bool { return svc.WaitingForLocks(t) == 1 }, "it waits for the lock")
	check()
	for _, sql := range release {
		_, err = tx.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	require.NoError(t, tx.Commit(t.Context()))
	return <-done
}

// requireUnlocked fails the test if another transaction has locked a row that sql selects.
func requireUnlocked(t *testing.T, svc *storetest.Service, sql string) {
	t.Helper()
	require.NoError(t, pgx.BeginFunc(t.Context(), svc.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), sql+` FOR UPDATE NOWAIT`)
		return err
	}))
}

const advisoryLocks = `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
	WHERE d.datname = current_database() AND l.locktype = 'advisory' AND l.granted`

// Transactions lock (event, user), then seats, then the reservation. While a transaction waits for
// one of these locks, it must not have taken a later one.
func TestLockOrderOfSeats(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	svc.MustHoldSeats(t, "u", "A-1-3", "A-1-5")
	const lockLast, reservations = `SELECT 1 FROM seats WHERE seat_id = 'A-1-5' FOR UPDATE`, `SELECT 1 FROM reservations`

	svc.Clock.Advance(storetest.HoldFor)
	require.NoError(t, whileLocked(t, svc, lockLast,
		func() error { _, err := svc.HoldSeats(t.Context(), "v", "A-1-7", "A-1-3"); return err },
		func() {
			require.EqualValues(t, 1, svc.Count(t, advisoryLocks), "the taker's own lock comes first")
			requireUnlocked(t, svc, reservations)
			requireUnlocked(t, svc, `SELECT 1 FROM seats WHERE seat_id = 'A-1-7'`)
		}), "a seat nobody wants is locked in its turn too, for it becomes free")

	r := svc.MustHoldSeats(t, "u", "A-1-5")
	require.NoError(t, whileLocked(t, svc, lockLast,
		func() error { return svc.Reservations.Cancel(t.Context(), "u", "", r.ID) },
		func() { requireUnlocked(t, svc, reservations) }))
	r = svc.MustHoldSeats(t, "u", "A-1-5")
	paid := settlement.PaymentEvent{Key: "k", Type: purchase.Reservation, ReferenceID: r.ID, Payment: storetest.Payment(r)}
	svc.Begun(t, paid)
	require.NoError(t, whileLocked(t, svc, lockLast,
		func() error {
			return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{paid})
		},
		func() { requireUnlocked(t, svc, reservations) }))
	svc.RequireInvariants(t)
}

func TestLockOrderOfGeneralAdmission(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10)))
	r, err := svc.HoldBest(t.Context(), "u", 1)
	require.NoError(t, err)
	const lockSection, reservations = `SELECT 1 FROM sections FOR UPDATE`, `SELECT 1 FROM reservations`

	require.NoError(t, whileLocked(t, svc, lockSection,
		func() error { _, err := svc.HoldBest(t.Context(), "v", 1); return err },
		func() { require.EqualValues(t, 1, svc.Count(t, advisoryLocks)) }))
	require.NoError(t, whileLocked(t, svc, lockSection,
		func() error { return svc.Reservations.Cancel(t.Context(), "u", "", r.ID) },
		func() { requireUnlocked(t, svc, reservations) }))
	svc.RequireInvariants(t)
}

// A payment begins in time, but commits after the hold's end. Its seats must not be taken over.
func TestTakeoverYieldsToAnEarlierPayment(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	r := svc.MustHoldSeats(t, "u", "A-1-1", "A-1-2")
	svc.Clock.Advance(storetest.HoldFor)
	err := whileLocked(t, svc, `SELECT 1 FROM seats WHERE reservation_id IS NOT NULL ORDER BY idx FOR UPDATE`,
		func() error { _, err := svc.HoldSeats(t.Context(), "v", "A-1-2", "A-1-3"); return err },
		func() {},
		`UPDATE reservations SET status = 'PAYING', payment_id = gen_random_uuid(), expires_at = expires_at + interval '10 min', version = 2`,
		`UPDATE seats SET held_until = held_until + interval '10 min' WHERE status = 'HELD'`)
	require.ErrorIs(t, err, reservation.ErrSeatTaken)
	require.Equal(t, reservation.Paying, svc.Find(t, r.ID).Status)
	svc.RequireInvariants(t)
}

// Requests for the best seats do not wait for locked seats.
func TestBestSeatsDoNotWait(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 5)))
	require.NoError(t, pgx.BeginFunc(t.Context(), svc.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE seat_id = 'A-1-3' FOR UPDATE`)
		require.NoError(t, err)
		r, err := svc.HoldBest(t.Context(), "u", 2)
		require.NoError(t, err)
		require.NotContains(t, r.SeatIDs(), "A-1-3")
		_, err = svc.HoldBest(t.Context(), "v", 3)
		require.ErrorIs(t, err, reservation.ErrTryAgain, "three are free, though one is locked")
		return nil
	}))
	n, err := svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Zero(t, n)
	svc.RequireInvariants(t)
}

func TestExpireDueSkipsLockedSeats(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 5)))
	one, two := svc.MustHoldSeats(t, "u1", "A-1-1", "A-1-2"), svc.MustHoldSeats(t, "u2", "A-1-3", "A-1-4")
	svc.Clock.Advance(storetest.HoldFor)
	require.NoError(t, pgx.BeginFunc(t.Context(), svc.Pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE seat_id = 'A-1-2' FOR UPDATE`)
		require.NoError(t, err)
		n, err := svc.Expiry.ExpireDue(t.Context(), 10)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		return nil
	}))
	require.Equal(t, reservation.Held, svc.Find(t, one.ID).Status)
	require.Equal(t, reservation.Expired, svc.Find(t, two.ID).Status)
	n, err := svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	svc.RequireInvariants(t)
}

// Transactions lock refund claims, then seats, reservations, tickets and the counters of sections.
// While the processing of a refund waits for a lock, it must not have taken a later one.
func TestLockOrderOfRefunds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	r := svc.MustHoldSeats(t, "u", "A-1-3", "A-1-5")
	p := storetest.Payment(r)
	svc.Confirm(t, r, p)
	const claims, seats = `SELECT 1 FROM refund_claims`, `SELECT 1 FROM seats WHERE status = 'SOLD'`
	const reservations, tickets, sections = `SELECT 1 FROM reservations`, `SELECT 1 FROM tickets`, `SELECT 1 FROM sections`
	order := []string{claims, seats, reservations, tickets, sections}
	for i, locked := range order {
		c := svc.BeginRefund(t, svc.RefundRequest(p, refund.User))
		refundMade := storetest.MadeRefund(c, p)
		require.NoError(t, whileLocked(t, svc, locked+` FOR UPDATE`,
			func() error {
				return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{refundMade})
			},
			func() {
				for _, later := range order[i+1:] {
					requireUnlocked(t, svc, later)
				}
			}))
		r = svc.MustHoldSeats(t, "u", "A-1-3", "A-1-5")
		p = storetest.Payment(r)
		svc.Confirm(t, r, p)
	}
	svc.RequireInvariants(t)
}

// Beginning a refund locks only tickets. It reads the clock after it has locked them, so that it is
// refused if its deadline passes while it waits for the locks.
func TestClaimsReadTheClockAfterTheirLocks(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	r := svc.MustHoldSeats(t, "u", "A-1-3")
	p := storetest.Payment(r)
	svc.Confirm(t, r, p)
	svc.Clock.Set(storetest.Start.Add(47*time.Hour - time.Minute))
	var c *refund.Claim
	require.NoError(t, whileLocked(t, svc, `SELECT 1 FROM tickets FOR UPDATE`,
		func() (err error) {
			c, err = svc.Refunds.Begin(t.Context(), svc.RefundRequest(p, refund.User))
			return err
		},
		func() {
			for _, rows := range []string{`SELECT 1 FROM seats`, `SELECT 1 FROM sections`, `SELECT 1 FROM reservations`} {
				requireUnlocked(t, svc, rows)
			}
			svc.Clock.Advance(time.Minute)
		}))
	require.Equal(t, refund.Refused, c.Status)
	require.Equal(t, refund.ExcludedTooLate, c.Excluded[0].Reason)
	svc.RequireInvariants(t)
}

// An advisory lock makes a payment's confirmation and its refund by hand wait for each other, since
// neither has stored a row yet that the other could lock.
func TestRefundsByHandWaitForTheConfirmation(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	r := svc.MustHoldSeats(t, "u", "A-1-3")
	p := storetest.Payment(r)
	paid := settlement.PaymentEvent{Key: "k", Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}
	svc.Begun(t, paid)
	refundBegun := make(chan error, 1)
	var c *refund.Claim
	require.NoError(t, whileLocked(t, svc, `SELECT 1 FROM reservations FOR UPDATE`,
		func() error {
			return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{paid})
		},
		func() {
			go func() {
				var err error
				c, err = svc.Refunds.Begin(t.Context(), svc.RefundRequest(p, refund.ByHand))
				refundBegun <- err
			}()
			testkit.Until(t, func() bool { return svc.WaitingForLocks(t) == 2 }, "the refund waits for the confirmation")
		}))
	require.NoError(t, <-refundBegun)
	require.Len(t, c.Items, 1)
	svc.RequireInvariants(t)
}
