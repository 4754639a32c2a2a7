package holds_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
)

func TestHoldSeatsStoresAndPublishesTheHold(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 2, 12), storetest.Rows("B", 50, 1, 4)))

	r := svc.MustHoldSeats(t, "u", "B-1-1", "A-2-10", "A-2-9")

	require.Equal(t, []string{"A-2-9", "A-2-10", "B-1-1"}, r.SeatIDs())
	require.EqualValues(t, 190, r.Amount)
	require.Equal(t, "KRW", r.Currency)
	require.Equal(t, 5*time.Minute, r.Until.Sub(r.CreatedAt))
	stored := svc.Find(t, r.ID)
	require.Equal(t, r.Seats, stored.Seats)
	require.Equal(t, r.Until, stored.Until)
	require.Equal(t, []storetest.OutboxEvent{{
		Type: "RESERVATION_CREATED", ReservationID: r.ID.String(), Origin: "SALE", UserID: "u", SlotID: "slot-u", Status: "HELD",
		SeatIDs: []string{"A-2-9", "A-2-10", "B-1-1"}, Quantity: 3, Amount: 190, Version: 1,
		ExpiresAt: r.Until.Format("2006-01-02T15:04:05.000Z"),
	}}, svc.OutboxEvents(t, r.ID))
	svc.RequireInvariants(t)
}

// putClosedSales puts events that admit no holds of seats: "early", "late", "PAUSED", "CANCELLED"
// and "general".
func putClosedSales(t *testing.T, svc *storetest.Service) {
	t.Helper()
	early := storetest.Spec("early", event.Assigned, storetest.Rows("A", 70, 1, 10))
	early.SalesOpenAt = storetest.Start.Add(time.Hour)
	svc.Put(t, early)
	late := storetest.Spec("late", event.Assigned, storetest.Rows("A", 70, 1, 10))
	late.SalesOpenAt, late.SalesCloseAt = storetest.Start.Add(-2*time.Hour), storetest.Start.Add(-time.Hour)
	svc.Put(t, late)
	svc.Put(t, storetest.Spec("general", event.General, storetest.Admissions("A", 10, 10)))
	for _, state := range []string{"PAUSED", "CANCELLED"} {
		svc.Put(t, storetest.Spec(state, event.Assigned, storetest.Rows("A", 70, 1, 10)))
		_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET state = $1 WHERE event_id = $1`, state)
		require.NoError(t, err)
	}
}

// requireOnlyReservation fails the test unless there is one reservation, and it has all the seats
// that are not free.
func requireOnlyReservation(t *testing.T, svc *storetest.Service, seats int64) {
	t.Helper()
	require.EqualValues(t, 1, svc.Count(t, `SELECT count(*) FROM reservations`))
	require.Equal(t, seats, svc.Count(t, `SELECT count(*) FROM seats WHERE status <> 'FREE'`))
	svc.RequireInvariants(t)
}

func TestHoldSeatsOfAClosedSale(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	putClosedSales(t, svc)
	for id, want := range map[string]*errs.Error{
		"nowhere": event.ErrNotFound, "early": event.ErrSaleNotOpen, "late": event.ErrSaleNotOpen, "PAUSED": event.ErrSaleNotOpen,
		"CANCELLED": event.ErrCancelled, "general": event.ErrSeatingMismatch,
	} {
		_, err := svc.Holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: id, UserID: "u", SeatIDs: []string{"A-1-1"}})
		require.ErrorIs(t, err, want, id)
	}
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM reservations`), "a refusal leaves nothing behind")
}

func TestHoldSeatsThatCannotBeHeld(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	svc.MustHoldSeats(t, "other", "A-1-1", "A-1-2")

	_, err := svc.HoldSeats(t.Context(), "u", "A-1-1", "A-1-3", "A-1-2")
	require.ErrorIs(t, err, reservation.ErrSeatTaken)
	require.ElementsMatch(t, []string{"A-1-1", "A-1-2"}, strings.Split(errs.From(err).Metadata["seatIds"], ","))
	_, err = svc.HoldSeats(t.Context(), "u", "A-1-3", "A-1-11")
	require.ErrorIs(t, err, event.ErrSeatNotFound)
	require.Equal(t, "A-1-11", errs.From(err).Metadata["seatIds"])
	_, err = svc.HoldSeats(t.Context(), "u", "A-1-4", "A-1-5", "A-1-6", "A-1-7", "A-1-8")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	require.Equal(t, map[string]string{"limit": "4", "used": "0"}, errs.From(err).Metadata)
	requireOnlyReservation(t, svc, 2)
}

// If a request wants more seats than the event's limit, none of these seats is read.
func TestHoldSeatsReadsNoSeatsAboveTheLimit(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 100))
	s.MaxPerUser = 30
	svc.Put(t, s)
	var row []string
	for i := range 40 {
		row = append(row, fmt.Sprintf("A-1-%d", i+1))
	}
	_, err := svc.HoldSeats(t.Context(), "u", row...)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	require.Zero(t, svc.Statements.Sent("SeenSeats"))
	svc.MustHoldSeats(t, "u", row[:30]...)
	_, err = svc.HoldSeats(t.Context(), "v", row[20:40]...)
	require.ErrorIs(t, err, reservation.ErrSeatTaken)
	_, err = svc.HoldSeats(t.Context(), "v", append(row[30:39:39], "A-1-101", "A-1-102", "A-1-103", "A-1-104", "A-1-105", "A-1-106", "A-1-107", "A-1-108")...)
	require.ErrorIs(t, err, event.ErrSeatNotFound)
	require.Equal(t, 3, svc.Statements.Sent("SeenSeats"))
	requireOnlyReservation(t, svc, 30)
}

func TestHoldSeatsLivesAsLongAsTheEventSays(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	s := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10))
	s.HoldSeconds = new(int32(30))
	svc.Put(t, s)
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	require.Equal(t, 30*time.Second, r.Until.Sub(r.CreatedAt))
}

func TestHoldSeatsLimitCountsWhatIsSoldAndUnexpired(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	bought := svc.MustHoldSeats(t, "u", "A-1-1", "A-1-2")
	svc.Confirm(t, bought, storetest.Payment(bought))
	svc.MustHoldSeats(t, "u", "A-1-3", "A-1-4")
	_, err := svc.HoldSeats(t.Context(), "u", "A-1-5")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)

	svc.Clock.Advance(storetest.HoldFor)
	svc.MustHoldSeats(t, "u", "A-1-5", "A-1-6")
	_, err = svc.HoldSeats(t.Context(), "u", "A-1-7")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	svc.RequireInvariants(t)
}

// Two hundred requests want overlapping seats in different orders. Each seat goes to one request,
// and each request gets all of its seats or none.
func TestHoldSeatsConcurrently(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	otherReplica := svc.Replica(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))

	results := storetest.Concurrently(200, func(i int) error {
		first := i%19 + 1
		seats := []string{fmt.Sprintf("A-1-%d", first), fmt.Sprintf("A-1-%d", first+1)}
		if i%2 == 0 {
			slices.Reverse(seats)
		}
		replica := svc
		if i%3 == 0 {
			replica = otherReplica
		}
		_, err := replica.HoldSeats(t.Context(), fmt.Sprintf("u%d", i), seats...)
		return err
	})
	held := storetest.CountSucceeded(t, results, reservation.ErrSeatTaken)
	require.EqualValues(t, held*2, svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'HELD'`))
	svc.RequireNoDeadlocks(t)
	// No free seat has a free neighbour, so no request for two adjacent seats could succeed.
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM seats x JOIN seats y ON y.idx = x.idx + 1 WHERE x.status = 'FREE' AND y.status = 'FREE'`))
	svc.RequireInvariants(t)
}

func TestHoldSeatsLimitUnderRaces(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	otherReplica := svc.Replica(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 4, 20)))

	results := storetest.Concurrently(40, func(i int) error {
		replica := svc
		if i%2 == 0 {
			replica = otherReplica
		}
		_, err := replica.HoldSeats(t.Context(), "greedy", fmt.Sprintf("A-%d-%d", i/20+1, i%20+1))
		return err
	})
	require.Equal(t, 4, storetest.CountSucceeded(t, results, reservation.ErrLimitExceeded))
	svc.RequireInvariants(t)
}

func TestHoldSeatsTakesOverExpiredHolds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	one := svc.MustHoldSeats(t, "one", "A-1-1", "A-1-2", "A-1-3")
	two := svc.MustHoldSeats(t, "two", "A-1-4", "A-1-5")
	svc.Clock.Advance(time.Minute)
	live := svc.MustHoldSeats(t, "live", "A-1-6")
	svc.Clock.Advance(storetest.HoldFor - time.Minute)

	taker := svc.MustHoldSeats(t, "taker", "A-1-4", "A-1-2", "A-1-9")

	for _, old := range []*reservation.Reservation{one, two} {
		require.Equal(t, reservation.Expired, svc.Find(t, old.ID).Status)
		require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED"}, svc.EventTypes(t, old.ID))
		require.EqualValues(t, 2, svc.OutboxEvents(t, old.ID)[1].Version)
	}
	require.Equal(t, reservation.Held, svc.Find(t, live.ID).Status)
	require.EqualValues(t, 3, svc.Count(t, `SELECT count(*) FROM seats WHERE reservation_id = $1`, taker.ID))
	require.EqualValues(t, 3, svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'FREE' AND seat_id IN ('A-1-1', 'A-1-3', 'A-1-5')`),
		"the other seats of those holds are free")
	svc.RequireInvariants(t)

	_, err := svc.HoldSeats(t.Context(), "late", "A-1-6")
	require.ErrorIs(t, err, reservation.ErrSeatTaken, "a hold that lives is not taken over")
	paying := svc.MustHoldSeats(t, "paying", "A-1-10")
	_, err = svc.Reservations.BeginPayment(t.Context(), "paying", paying.ID, uuid.New(), purchase.PayTime{})
	require.NoError(t, err)
	_, err = svc.HoldSeats(t.Context(), "late", "A-1-10")
	require.ErrorIs(t, err, reservation.ErrSeatTaken, "nor one whose payment is under way")
	svc.Clock.Advance(purchase.PayWithin)
	svc.MustHoldSeats(t, "late", "A-1-10")
	require.Equal(t, reservation.Expired, svc.Find(t, paying.ID).Status)
	svc.RequireInvariants(t)
}

// Holds that have just expired are taken over, paid and ended at the same time.
func TestTakeoverConcurrently(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	otherReplica := svc.Replica(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 40)))
	for round := range 3 {
		old := make([]*reservation.Reservation, 10)
		for i := range old {
			user := fmt.Sprintf("old%d-%d", round, i)
			old[i] = svc.MustHoldSeats(t, user, fmt.Sprintf("A-1-%d", 4*i+1), fmt.Sprintf("A-1-%d", 4*i+2), fmt.Sprintf("A-1-%d", 4*i+3))
		}
		svc.Clock.Advance(storetest.HoldFor)
		take := func(i int) error {
			replica := svc
			if i%2 == 0 {
				replica = otherReplica
			}
			// The request wants one seat of each of two neighbouring old holds, in either order.
			seats := []string{fmt.Sprintf("A-1-%d", (4*i+2)%40+1), fmt.Sprintf("A-1-%d", (4*i+4)%40+1)}
			if i%3 == 0 {
				slices.Reverse(seats)
			}
			_, err := replica.HoldSeats(t.Context(), fmt.Sprintf("new%d-%d", round, i), seats...)
			return err
		}
		settle := func(i int) error {
			paid := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: old[i].ID, Payment: storetest.Payment(old[i])}
			svc.Begun(t, paid)
			return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{paid})
		}
		sweep := func(int) error { _, err := svc.Expiry.ExpireDue(t.Context(), 5); return err }

		var taken, settled, swept []error
		var wg sync.WaitGroup
		wg.Go(func() { taken = storetest.Concurrently(60, take) })
		wg.Go(func() { settled = storetest.Concurrently(len(old), settle) })
		wg.Go(func() { swept = storetest.Concurrently(4, sweep) })
		wg.Wait()
		storetest.CountSucceeded(t, taken, reservation.ErrSeatTaken)
		for _, err := range slices.Concat(settled, swept) {
			require.NoError(t, err)
		}
		svc.RequireInvariants(t)
		for _, r := range old {
			require.Equal(t, reservation.Rejected, svc.Find(t, r.ID).Status, "paid after its time")
		}
		svc.Clock.Advance(storetest.HoldFor)
	}
	svc.RequireNoDeadlocks(t)
}
