package holds_test

import (
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/pkg/waittest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// whileWaiting runs fn while a request waits for what sql has locked, and then lets it go on.
func whileWaiting(t *testing.T, svc *storetest.Service, lock func(tx pgx.Tx) error, request func() error, fn func()) {
	t.Helper()
	tx, err := svc.Pool.Begin(t.Context())
	require.NoError(t, err)
	defer func() { _ = tx.Rollback(t.Context()) }()
	require.NoError(t, lock(tx))
	done := make(chan error, 1)
	go func() { done <- request() }()
	waittest.Until(t, func() bool { return svc.WaitingForLocks(t) == 1 }, "it waits for the lock")
	fn()
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, <-done)
}

// Requests are decided together, but a lock delays only those that want the same.
func TestHoldSeatsThatMeetALockDelayNoOthers(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	others := func(from int) func() {
		return func() {
			for _, err := range storetest.Concurrently(6, func(i int) error {
				_, err := svc.HoldSeats(t.Context(), fmt.Sprintf("u%d", from+i), fmt.Sprintf("A-1-%d", from+i))
				return err
			}) {
				require.NoError(t, err)
			}
		}
	}
	whileWaiting(t, svc, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT 1 FROM seats WHERE seat_id = 'A-1-1' FOR UPDATE`)
		return err
	}, func() error { _, err := svc.HoldSeats(t.Context(), "v", "A-1-1"); return err }, others(2))
	whileWaiting(t, svc, func(tx pgx.Tx) error {
		_, err := tx.Exec(t.Context(), `SELECT pg_advisory_xact_lock($1)`, postgres.User{EventID: "e", UserID: "w"}.LockKey())
		return err
	}, func() error { _, err := svc.HoldSeats(t.Context(), "w", "A-1-8"); return err }, others(9))
	require.EqualValues(t, 14, svc.Count(t, `SELECT count(*) FROM reservations`))
	svc.RequireInvariants(t)
}

func request(user string, seats ...string) reservation.SeatsRequest {
	return reservation.SeatsRequest{EventID: "e", UserID: user, SlotID: "slot-" + user, SeatIDs: seats}
}

// A batch is decided in the order of arrival, in one transaction. A refusal is its request's alone.
func TestHoldSeatsAreDecidedTogether(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	over := []*reservation.Reservation{svc.MustHoldSeats(t, "o1", "A-1-11", "A-1-12"), svc.MustHoldSeats(t, "o2", "A-1-14", "A-1-15")}
	svc.Clock.Advance(storetest.HoldFor)
	svc.MustHoldSeats(t, "other", "A-1-20")
	again := request("v", "A-1-6")
	again.IdempotencyKey = key(t, "v", "key")
	locked := svc.Statements.Sent("LockFreeSeats")

	reqs := []reservation.SeatsRequest{
		request("u", "A-1-2", "A-1-1"),
		request("v", "A-1-1"),
		request("u", "A-1-3"),
		request("u", "A-1-4", "A-1-5"),
		request("v", "A-1-7", "A-1-20"),
		request("v", "A-1-99"),
		again,
		again,
		request("w", "A-1-12", "A-1-13"), // over a hold whose time is over
		request("x", "A-1-11"),           // which that one has made free
		request("x", "A-1-12"),
		request("y", "A-1-14", "A-1-1"),
	}
	want := map[int]error{
		1: reservation.ErrSeatTaken, 3: reservation.ErrLimitExceeded, 4: reservation.ErrSeatTaken, 5: event.ErrSeatNotFound,
		7: idempotency.ErrInProgress, 10: reservation.ErrSeatTaken, 11: reservation.ErrSeatTaken,
	}
	for i, err := range svc.Holds.Together(t.Context(), reqs...) {
		require.ErrorIs(t, err, want[i], "request %d", i)
	}
	require.Equal(t, locked+1, svc.Statements.Sent("LockFreeSeats"), "one transaction")
	require.Equal(t, "xxx..x....xxxxx....x", seats(t, svc))
	require.Equal(t, reservation.Expired, svc.Find(t, over[0].ID).Status)
	require.Equal(t, reservation.Held, svc.Find(t, over[1].ID).Status, "nobody has taken it over")
	svc.RequireInvariants(t)
	repeated, err := svc.Holds.HoldSeats(t.Context(), again)
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-6"}, repeated.SeatIDs())
	for _, id := range []string{"nowhere", "general"} {
		svc.Put(t, storetest.Spec("general", event.General, storetest.Admissions("A", 70, 10)))
		elsewhere := request("u", "A-1-1")
		elsewhere.EventID = id
		for _, err := range svc.Holds.Together(t.Context(), elsewhere, elsewhere) {
			require.ErrorIs(t, err, map[string]error{"nowhere": event.ErrNotFound, "general": event.ErrSeatingMismatch}[id])
		}
	}
}

// seats draws the row of seats: a dot for each that no reservation has.
func seats(t *testing.T, svc *storetest.Service) (row string) {
	t.Helper()
	err := svc.Pool.QueryRow(t.Context(), `SELECT string_agg(CASE status WHEN 'FREE' THEN '.' ELSE 'x' END, '' ORDER BY idx) FROM seats`).Scan(&row)
	require.NoError(t, err)
	return row
}

// A request that makes its batch fail fails alone.
func TestHoldSeatsDoNotShareAFailure(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	// A seat whose hold is over, of a reservation that is not: taking it over is refused.
	broken := svc.MustHoldSeats(t, "broken", "A-1-20")
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Pool.Exec(t.Context(), `UPDATE reservations SET expires_at = expires_at + interval '1 day' WHERE reservation_id = $1`, broken.ID)
	require.NoError(t, err)
	reqs := []reservation.SeatsRequest{request("u", "A-1-1"), request("unlucky", "A-1-20"), request("v", "A-1-2")}
	for _, err := range svc.Holds.Together(t.Context(), reqs...) {
		require.ErrorIs(t, err, holds.ErrAlone)
	}
	for i, err := range storetest.Concurrently(len(reqs), func(i int) error { _, err := svc.Holds.HoldSeats(t.Context(), reqs[i]); return err }) {
		require.Equal(t, i == 1, err != nil, "request %d: %v", i, err)
	}
	require.Equal(t, "xx.................x", seats(t, svc))
}
