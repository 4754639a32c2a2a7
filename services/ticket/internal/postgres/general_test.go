package postgres_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

func (b *bundle) sections(t *testing.T) (held, sold int64) {
	t.Helper()
	require.NoError(t, b.pool.QueryRow(t.Context(), `SELECT sum(held), sum(sold) FROM sections`).Scan(&held, &sold))
	return held, sold
}

func TestHoldGeneral(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.General, admissions("A", 55, 5), admissions("B", 10, 1)))

	r, err := b.best(t.Context(), "u", 3)
	require.NoError(t, err)
	require.Equal(t, "A", r.Section)
	require.Equal(t, 3, r.Quantity)
	require.EqualValues(t, 165, r.Amount)
	require.Empty(t, r.Seats)
	require.Equal(t, r.ExpiresAt, b.find(t, r.ID).ExpiresAt)
	created := b.told(t, r.ID)
	require.Len(t, created, 1)
	require.Equal(t, "A", created[0].Section)
	require.Equal(t, "slot-u", created[0].SlotID)
	require.EqualValues(t, 3, created[0].Quantity)

	_, err = b.best(t.Context(), "u", 2)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	_, err = b.best(t.Context(), "v", 3)
	require.ErrorIs(t, err, reservation.ErrSoldOut)
	_, err = b.reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "v", Section: "C", Quantity: 1})
	require.ErrorIs(t, err, event.ErrSectionNotFound)
	_, err = b.reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "x", UserID: "v", Section: "A", Quantity: 1})
	require.ErrorIs(t, err, event.ErrNotFound)

	b.clock.Advance(holdFor)
	free, err := b.store.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []int64{5, 1}, free.Free, "a hold whose time is over is free before anybody frees it")
	_, err = b.best(t.Context(), "v", 4)
	require.NoError(t, err, "and may be taken")
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED"}, b.types(t, r.ID))
	b.requireInvariants(t)
}

// Four hundred people want one to three of 300 places, through two replicas: exactly those that are there are held.
func TestHoldGeneralConcurrently(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := replica(t, b)
	b.put(t, spec("e", event.General, admissions("A", 55, 300)))
	var lapsed []*reservation.Reservation
	for i := range 10 {
		r, err := b.best(t.Context(), fmt.Sprintf("gone%d", i), 4)
		require.NoError(t, err)
		lapsed = append(lapsed, r)
	}
	b.clock.Advance(holdFor)

	results := together(400, func(i int) error {
		from := b
		if i%2 == 0 {
			from = other
		}
		_, err := from.best(t.Context(), fmt.Sprintf("u%d", i), i%3+1)
		return err
	})
	require.Less(t, succeeded(t, results, reservation.ErrSoldOut), 400)
	places := 0
	for i, err := range results {
		if err == nil {
			places += i%3 + 1
		}
	}
	held, sold := b.sections(t)
	require.Zero(t, sold)
	require.EqualValues(t, places, held)
	require.EqualValues(t, 300, held, "someone always wants one place, so none is left")
	for _, r := range lapsed {
		require.Equal(t, reservation.Expired, b.find(t, r.ID).Status)
	}
	b.requireInvariants(t)
}

func TestHoldGeneralLimitUnderRaces(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := replica(t, b)
	b.put(t, spec("e", event.General, admissions("A", 55, 300), admissions("B", 55, 300)))
	results := together(40, func(i int) error {
		from, section := b, "A" // no section's lock keeps the replicas apart, only the user's
		if i%2 == 0 {
			from, section = other, "B"
		}
		_, err := from.reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "greedy", Section: section, Quantity: 1})
		return err
	})
	require.Equal(t, 4, succeeded(t, results, reservation.ErrLimitExceeded))
	b.requireInvariants(t)
}

func TestGeneralAdmissionFollowsItsReservations(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.General, admissions("A", 55, 20)))
	paid, err := b.best(t.Context(), "paid", 2)
	require.NoError(t, err)
	cancelled, err := b.best(t.Context(), "cancelled", 3)
	require.NoError(t, err)
	_, err = b.best(t.Context(), "lapsed", 4)
	require.NoError(t, err)
	requireSections := func(held, sold int64) {
		t.Helper()
		h, s := b.sections(t)
		require.Equal(t, [2]int64{held, sold}, [2]int64{h, s})
		b.requireInvariants(t)
	}
	requireSections(9, 0)

	p := payment(paid)
	_, err = b.reservations.BeginPayment(t.Context(), "paid", paid.ID, p.ID)
	require.NoError(t, err)
	requireSections(9, 0)
	b.paid(t, paid, p)
	requireSections(7, 2)
	require.NoError(t, b.reservations.Cancel(t.Context(), "cancelled", "e", cancelled.ID))
	requireSections(4, 2)
	b.clock.Advance(holdFor)
	n, err := b.store.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	requireSections(0, 2)
	b.settle(t, reservation.PaymentEvent{Key: "refund", ReservationID: paid.ID, Payment: p, Refunded: true, Cause: reservation.CauseUser})
	requireSections(0, 0)
}
