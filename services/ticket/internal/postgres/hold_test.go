package postgres_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

func TestHoldSeatsTellsAndKeepsWhatItHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 2, 12), rows("B", 50, 1, 4)))

	r := b.mustHold(t, "u", "B-1-1", "A-2-10", "A-2-9")

	require.Equal(t, []string{"A-2-9", "A-2-10", "B-1-1"}, r.SeatIDs())
	require.EqualValues(t, 190, r.Amount)
	require.Equal(t, "KRW", r.Currency)
	require.Equal(t, 5*time.Minute, r.ExpiresAt.Sub(r.CreatedAt))
	stored := b.find(t, r.ID)
	require.Equal(t, r.Seats, stored.Seats)
	require.Equal(t, r.ExpiresAt, stored.ExpiresAt)
	require.Equal(t, []told{{
		Type: "RESERVATION_CREATED", ReservationID: r.ID.String(), UserID: "u", SlotID: "slot-u", Status: "HELD",
		SeatIDs: []string{"A-2-9", "A-2-10", "B-1-1"}, Quantity: 3, Amount: 190, Version: 1,
		ExpiresAt: r.ExpiresAt.Format("2006-01-02T15:04:05.000Z"),
	}}, b.told(t, r.ID))
	b.requireInvariants(t)
}

func TestHoldSeatsRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	s := spec("e", event.Assigned, rows("A", 70, 1, 10))
	s.HoldSeconds = ptr(int32(30))
	b.put(t, s)
	early := spec("early", event.Assigned, rows("A", 70, 1, 10))
	early.SalesOpenAt = opening.Add(time.Hour)
	b.put(t, early)
	late := spec("late", event.Assigned, rows("A", 70, 1, 10))
	late.SalesOpenAt, late.SalesCloseAt = opening.Add(-2*time.Hour), opening.Add(-time.Hour)
	b.put(t, late)
	b.put(t, spec("general", event.General, admissions("A", 10, 10)))
	for _, state := range []string{"PAUSED", "CANCELLED"} {
		b.put(t, spec(state, event.Assigned, rows("A", 70, 1, 10)))
		_, err := b.pool.Exec(t.Context(), `UPDATE events SET state = $1 WHERE event_id = $1`, state)
		require.NoError(t, err)
	}
	held := b.mustHold(t, "other", "A-1-1", "A-1-2")
	require.Equal(t, 30*time.Second, held.ExpiresAt.Sub(held.CreatedAt))

	for name, c := range map[string]struct {
		event string
		seats []string
		want  *errs.Error
		meta  map[string]string
	}{
		"taken":         {"e", []string{"A-1-1", "A-1-3", "A-1-2"}, reservation.ErrSeatTaken, map[string]string{"seatIds": "A-1-1,A-1-2"}},
		"no such seat":  {"e", []string{"A-1-3", "A-1-11"}, event.ErrSeatNotFound, map[string]string{"seatIds": "A-1-11"}},
		"no such event": {"nowhere", []string{"A-1-1"}, event.ErrNotFound, nil},
		"too many":      {"e", []string{"A-1-4", "A-1-5", "A-1-6", "A-1-7", "A-1-8"}, reservation.ErrLimitExceeded, map[string]string{"limit": "4", "used": "0"}},
		"too early":     {"early", []string{"A-1-1"}, event.ErrSaleNotOpen, nil},
		"too late":      {"late", []string{"A-1-1"}, event.ErrSaleNotOpen, nil},
		"paused":        {"PAUSED", []string{"A-1-1"}, event.ErrSaleNotOpen, nil},
		"cancelled":     {"CANCELLED", []string{"A-1-1"}, event.ErrCancelled, nil},
		"not assigned":  {"general", []string{"A-1-1"}, event.ErrSeatingMismatch, nil},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := b.holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: c.event, UserID: "u", SeatIDs: c.seats})
			require.ErrorIs(t, err, c.want)
			for k, v := range c.meta {
				got := errs.From(err).Metadata[k]
				if k == "seatIds" {
					require.ElementsMatch(t, split(v), split(got))
				} else {
					require.Equal(t, v, got)
				}
			}
		})
	}
	require.EqualValues(t, 1, b.count(t, `SELECT count(*) FROM reservations`), "a refusal leaves nothing behind")
	require.EqualValues(t, 2, b.count(t, `SELECT count(*) FROM seats WHERE status <> 'FREE'`))
	b.requireInvariants(t)
}

func TestHoldSeatsLimitCountsWhatIsSoldAndUnexpired(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 20)))
	bought := b.mustHold(t, "u", "A-1-1", "A-1-2")
	b.paid(t, bought, payment(bought))
	b.mustHold(t, "u", "A-1-3", "A-1-4")
	_, err := b.hold(t.Context(), "u", "A-1-5")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)

	b.clock.Advance(holdFor)
	b.mustHold(t, "u", "A-1-5", "A-1-6")
	_, err = b.hold(t.Context(), "u", "A-1-7")
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	b.requireInvariants(t)
}

// Two hundred people want overlapping seats in different orders: every seat goes to one, all of a request or none.
func TestHoldSeatsConcurrently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := replica(t, b)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 20)))

	results := together(200, func(i int) error {
		a := i%19 + 1
		seats := []string{fmt.Sprintf("A-1-%d", a), fmt.Sprintf("A-1-%d", a+1)}
		if i%2 == 0 {
			slices.Reverse(seats)
		}
		from := b
		if i%3 == 0 {
			from = other
		}
		_, err := from.hold(t.Context(), fmt.Sprintf("u%d", i), seats...)
		return err
	})
	held := succeeded(t, results, reservation.ErrSeatTaken)
	require.EqualValues(t, held*2, b.count(t, `SELECT count(*) FROM seats WHERE status = 'HELD'`))
	b.requireNoDeadlocks(t)
	// Nobody can hold a pair any more: every free seat has taken neighbours.
	require.Zero(t, b.count(t, `SELECT count(*) FROM seats x JOIN seats y ON y.idx = x.idx + 1 WHERE x.status = 'FREE' AND y.status = 'FREE'`))
	b.requireInvariants(t)
}

func TestHoldSeatsLimitUnderRaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := replica(t, b)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 4, 20)))

	results := together(40, func(i int) error {
		from := b
		if i%2 == 0 {
			from = other
		}
		_, err := from.hold(t.Context(), "greedy", fmt.Sprintf("A-%d-%d", i/20+1, i%20+1))
		return err
	})
	require.Equal(t, 4, succeeded(t, results, reservation.ErrLimitExceeded))
	b.requireInvariants(t)
}

func TestHoldSeatsTakesOverExpiredHolds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 10)))
	one := b.mustHold(t, "one", "A-1-1", "A-1-2", "A-1-3")
	two := b.mustHold(t, "two", "A-1-4", "A-1-5")
	b.clock.Advance(time.Minute)
	live := b.mustHold(t, "live", "A-1-6")
	b.clock.Advance(holdFor - time.Minute)

	taker := b.mustHold(t, "taker", "A-1-4", "A-1-2", "A-1-9")

	for _, old := range []*reservation.Reservation{one, two} {
		require.Equal(t, reservation.Expired, b.find(t, old.ID).Status)
		require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED"}, b.types(t, old.ID))
		require.EqualValues(t, 2, b.told(t, old.ID)[1].Version)
	}
	require.Equal(t, reservation.Held, b.find(t, live.ID).Status)
	require.EqualValues(t, 3, b.count(t, `SELECT count(*) FROM seats WHERE reservation_id = $1`, taker.ID))
	require.EqualValues(t, 3, b.count(t, `SELECT count(*) FROM seats WHERE status = 'FREE' AND seat_id IN ('A-1-1', 'A-1-3', 'A-1-5')`),
		"the other seats of those holds are free")
	b.requireInvariants(t)

	_, err := b.hold(t.Context(), "late", "A-1-6")
	require.ErrorIs(t, err, reservation.ErrSeatTaken, "a hold that lives is not taken over")
	paying := b.mustHold(t, "paying", "A-1-10")
	_, err = b.reservations.BeginPayment(t.Context(), "paying", paying.ID, uuid.New())
	require.NoError(t, err)
	_, err = b.hold(t.Context(), "late", "A-1-10")
	require.ErrorIs(t, err, reservation.ErrSeatTaken, "nor one whose payment is under way")
	b.clock.Advance(reservation.PayWithin)
	b.mustHold(t, "late", "A-1-10")
	require.Equal(t, reservation.Expired, b.find(t, paying.ID).Status)
	b.requireInvariants(t)
}

// Takers, payers and the sweeper meet at holds that have just ended.
func TestTakeoverConcurrently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := replica(t, b)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 40)))
	for round := range 3 {
		old := make([]*reservation.Reservation, 10)
		for i := range old {
			user := fmt.Sprintf("old%d-%d", round, i)
			old[i] = b.mustHold(t, user, fmt.Sprintf("A-1-%d", 4*i+1), fmt.Sprintf("A-1-%d", 4*i+2), fmt.Sprintf("A-1-%d", 4*i+3))
		}
		b.clock.Advance(holdFor)
		take := func(i int) error {
			from := b
			if i%2 == 0 {
				from = other
			}
			// Across the borders of the old holds, from both sides.
			seats := []string{fmt.Sprintf("A-1-%d", (4*i+2)%40+1), fmt.Sprintf("A-1-%d", (4*i+4)%40+1)}
			if i%3 == 0 {
				slices.Reverse(seats)
			}
			_, err := from.hold(t.Context(), fmt.Sprintf("new%d-%d", round, i), seats...)
			return err
		}
		settle := func(i int) error {
			paid := reservation.PaymentEvent{Key: uuid.NewString(), ReservationID: old[i].ID, Payment: payment(old[i])}
			return b.store.Settle(t.Context(), group, []reservation.PaymentEvent{paid})
		}
		sweep := func(int) error { _, err := b.store.ExpireDue(t.Context(), 5); return err }

		var taken, settled, swept []error
		var wg sync.WaitGroup
		wg.Go(func() { taken = together(60, take) })
		wg.Go(func() { settled = together(len(old), settle) })
		wg.Go(func() { swept = together(4, sweep) })
		wg.Wait()
		succeeded(t, taken, reservation.ErrSeatTaken)
		for _, err := range slices.Concat(settled, swept) {
			require.NoError(t, err)
		}
		b.requireInvariants(t)
		for _, r := range old {
			require.Equal(t, reservation.Rejected, b.find(t, r.ID).Status, "paid after its time")
		}
		b.clock.Advance(holdFor)
	}
	b.requireNoDeadlocks(t)
}
