package holds_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// whileWaiting calls lock in a transaction, starts request, runs fn while it waits, and commits.
func whileWaiting(t *testing.T, svc *storetest.Service, lock func(tx pgx.Tx) error, request func() error, fn func()) {
	t.Helper()
	tx, err := svc.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	require.NoError(t, lock(tx))
	done := make(chan error, 1)
	go func() { done <- request() }()
	testkit.Until(t, func() bool { return svc.WaitingForLocks(t) == 1 }, "it waits for the lock")
	fn()
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
}

// Requests are decided in batches, but a lock delays only the requests that need this lock.
func TestHoldSeatsThatMeetALockDelayNoOthers(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	holdOthers := func(first int) func() {
		return func() {
			for _, err := range storetest.Concurrently(6, func(i int) error {
				_, err := svc.HoldSeats(t.Context(), fmt.Sprintf("u%d", first+i), fmt.Sprintf("A-1-%d", first+i))
				return err
			}) {
				require.NoError(t, err)
			}
		}
	}
	whileWaiting(t, svc, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE seat_id = 'A-1-1' FOR UPDATE`)
		return err
	}, func() error { _, err := svc.HoldSeats(t.Context(), "v", "A-1-1"); return err }, holdOthers(2))
	whileWaiting(t, svc, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, postgres.User{EventID: "e", UserID: "w"}.LockKey())
		return err
	}, func() error { _, err := svc.HoldSeats(t.Context(), "w", "A-1-8"); return err }, holdOthers(9))
	require.EqualValues(t, 14, svc.Count(t, `SELECT count(*) FROM reservations`))
	svc.RequireInvariants(t)
}

func request(user string, seats ...string) reservation.SeatsRequest {
	return reservation.SeatsRequest{EventID: "e", UserID: user, SlotID: "slot-" + user, SeatIDs: seats}
}

// The requests of a batch are decided in the order of arrival, in one transaction. A refused
// request does not affect the others.
func TestHoldSeatsAreDecidedTogether(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	expired := []*reservation.Reservation{svc.MustHoldSeats(t, "o1", "A-1-11", "A-1-12"), svc.MustHoldSeats(t, "o2", "A-1-14", "A-1-15")}
	svc.Clock.Advance(storetest.HoldFor)
	svc.MustHoldSeats(t, "other", "A-1-20")
	keyedReq := request("v", "A-1-6")
	keyedReq.IdempotencyKey = key(t, "v", "key")
	locked := svc.Statements.Sent("LockFreeSeats")

	reqs := []reservation.SeatsRequest{
		request("u", "A-1-2", "A-1-1"),
		request("v", "A-1-1"),
		request("u", "A-1-3"),
		request("u", "A-1-4", "A-1-5"),
		request("v", "A-1-7", "A-1-20"),
		request("v", "A-1-99"),
		keyedReq,
		keyedReq,
		request("w", "A-1-12", "A-1-13"), // A-1-12 has an expired hold
		request("x", "A-1-11"),           // freed by the previous request
		request("x", "A-1-12"),
		request("y", "A-1-14", "A-1-1"),
	}
	want := map[int]error{
		1: reservation.ErrSeatTaken, 3: reservation.ErrLimitExceeded, 4: reservation.ErrSeatTaken, 5: event.ErrSeatNotFound,
		7: idempotency.ErrInProgress, 10: reservation.ErrSeatTaken, 11: reservation.ErrSeatTaken,
	}
	for i, err := range svc.Holds.DecideBatch(t.Context(), reqs...) {
		require.ErrorIs(t, err, want[i], "request %d", i)
	}
	require.Equal(t, locked+1, svc.Statements.Sent("LockFreeSeats"), "one transaction")
	require.Equal(t, "xxx..x....xxxxx....x", seats(t, svc))
	require.Equal(t, reservation.Expired, svc.Find(t, expired[0].ID).Status)
	require.Equal(t, reservation.Held, svc.Find(t, expired[1].ID).Status, "nobody has taken it over")
	svc.RequireInvariants(t)
	repeated, err := svc.Holds.HoldSeats(t.Context(), keyedReq)
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-6"}, repeated.SeatIDs())
	for _, id := range []string{"nowhere", "general"} {
		svc.Put(t, storetest.Spec("general", event.General, storetest.Admissions("A", 70, 10)))
		elsewhere := request("u", "A-1-1")
		elsewhere.EventID = id
		for _, err := range svc.Holds.DecideBatch(t.Context(), elsewhere, elsewhere) {
			require.ErrorIs(t, err, map[string]error{"nowhere": event.ErrNotFound, "general": event.ErrSeatingMismatch}[id])
		}
	}
}

// seats draws the row of seats: a dot for each seat without a reservation.
func seats(t *testing.T, svc *storetest.Service) (row string) {
	t.Helper()
	err := svc.Pool.QueryRow(t.Context(), `SELECT string_agg(CASE status WHEN 'FREE' THEN '.' ELSE 'x' END, '' ORDER BY idx) FROM seats`).Scan(&row)
	require.NoError(t, err)
	return row
}

// A request that makes its batch fail gets an error, but the other requests of the batch do not.
func TestHoldSeatsDoNotShareAFailure(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	// This reservation has lost its seat, so that it cannot be ended.
	broken := svc.MustHoldSeats(t, "broken", "A-1-20")
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Pool.Exec(t.Context(), `UPDATE places SET live = false WHERE reservation_id = $1`, broken.ID)
	require.NoError(t, err)
	reqs := []reservation.SeatsRequest{request("u", "A-1-1"), request("unlucky", "A-1-20"), request("v", "A-1-2")}
	for _, err := range svc.Holds.DecideBatch(t.Context(), reqs...) {
		require.ErrorIs(t, err, reservation.ErrUndecided)
	}
	for i, err := range storetest.Concurrently(len(reqs), func(i int) error { _, err := svc.Holds.HoldSeats(t.Context(), reqs[i]); return err }) {
		require.Equal(t, i == 1, err != nil, "request %d: %v", i, err)
	}
	require.Equal(t, "xx.................x", seats(t, svc))
}

// A seat counts as taken if its expired hold contradicts other rows. No other request fails.
func TestHoldSeatsOverAContradiction(t *testing.T) {
	t.Parallel()
	for name, contradict := range map[string]string{
		"not over":      `UPDATE reservations SET expires_at = expires_at + interval '1 day' WHERE reservation_id = $1`,
		"ended already": `UPDATE reservations SET status = 'EXPIRED' WHERE reservation_id = $1`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 8)))
			broken, expired := svc.MustHoldSeats(t, "broken", "A-1-4", "A-1-5"), svc.MustHoldSeats(t, "over", "A-1-8")
			svc.Clock.Advance(storetest.HoldFor)
			_, err := svc.Pool.Exec(t.Context(), contradict, broken.ID)
			require.NoError(t, err)
			want := []error{nil, reservation.ErrSeatTaken, nil}
			for i, err := range svc.Holds.DecideBatch(t.Context(), request("u", "A-1-1"), request("unlucky", "A-1-4"), request("v", "A-1-8")) {
				require.ErrorIs(t, err, want[i], "request %d", i)
			}
			require.Equal(t, reservation.Expired, svc.Find(t, expired.ID).Status)
			_, err = svc.HoldSeats(t.Context(), "alone", "A-1-5", "A-1-2")
			require.ErrorIs(t, err, reservation.ErrSeatTaken)
			best, err := svc.HoldBest(t.Context(), "best", 2)
			require.NoError(t, err, "it picks that seat first, and then others")
			require.NotContains(t, best.SeatIDs(), "A-1-4")
		})
	}
}

// Requests that wait for locks leave connections for those that need not wait.
func TestHoldSeatsThatWaitLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	svc.Put(t, storetest.Spec("other", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	tx, err := svc.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	_, err = tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE event_id = 'e' FOR UPDATE`)
	require.NoError(t, err)
	done := make(chan []error, 1)
	go func() {
		done <- storetest.Concurrently(12, func(i int) error { // as many as transactions run at once
			_, err := svc.HoldSeats(t.Context(), fmt.Sprintf("u%d", i), fmt.Sprintf("A-1-%d", i+1))
			return err
		})
	}()
	testkit.Until(t, func() bool { return svc.WaitingForLocks(t) == 6 }, "half of the transactions wait")
	for i := range 10 {
		req := request("v", fmt.Sprintf("A-1-%d", i+1))
		req.EventID, req.UserID = "other", fmt.Sprintf("v%d", i)
		_, err := svc.Holds.HoldSeats(t.Context(), req)
		require.NoError(t, err)
		require.EqualValues(t, 6, svc.WaitingForLocks(t))
	}
	require.NoError(t, tx.Rollback(t.Context()))
	for _, err := range <-done {
		require.NoError(t, err)
	}
}

// A request gets ErrSeatNotFound if the seat that it waits for is deleted.
func TestHoldSeatsThatAreDeletedMeanwhile(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	var refusal error
	whileWaiting(t, svc, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `DELETE FROM seats WHERE seat_id = 'A-1-1'`)
		return err
	}, func() error { _, refusal = svc.HoldSeats(t.Context(), "u", "A-1-1", "A-1-2"); return nil }, func() {})
	require.ErrorIs(t, refusal, event.ErrSeatNotFound)
	require.Equal(t, "A-1-1", errs.From(refusal).Metadata["seatIds"])
	svc.MustHoldSeats(t, "u", "A-1-2")
}

// PostgreSQL has room for few locks, so a batch has at most 100 requests.
func TestBatchesTakeFewLocks(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 1000), storetest.Admissions("B", 70, 1000)))
	lock := func(section string) pgx.Tx {
		tx, err := svc.Pool.Begin(t.Context())
		require.NoError(t, err)
		_, err = tx.Exec(t.Context(), `SELECT 1 FROM sections WHERE section = $1 FOR UPDATE`, section)
		require.NoError(t, err)
		return tx
	}
	locked := func() int64 {
		return svc.Count(t, `SELECT count(*) FROM pg_locks l JOIN pg_database d ON d.oid = l.database
			WHERE d.datname = current_database() AND l.locktype = 'advisory'`)
	}
	a, b := lock("A"), lock("B")
	hold := func(user, section string) error {
		_, err := svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "e", UserID: user, Section: section, Quantity: 1})
		return err
	}
	first, crowd := make(chan error, 1), make(chan []error, 1)
	go func() { first <- hold("first", "A") }()
	testkit.Until(t, func() bool { return svc.WaitingForLocks(t) == 1 }, "the first batch waits for the section A")
	var begun atomic.Int64
	go func() {
		crowd <- storetest.Concurrently(150, func(i int) error { begun.Add(1); return hold(fmt.Sprintf("u%d", i), "B") })
	}()
	testkit.Until(t, func() bool { return begun.Load() == 150 }, "the others come meanwhile")
	require.NoError(t, a.Commit(t.Context()))
	testkit.Until(t, func() bool { return locked() > 1 }, "the second batch waits for the section B")
	require.LessOrEqual(t, locked(), int64(100))
	require.NoError(t, b.Commit(t.Context()))
	for _, err := range append(<-crowd, <-first) {
		require.NoError(t, err)
	}
	require.EqualValues(t, 151, svc.Count(t, `SELECT sum(held) FROM sections`))
}
