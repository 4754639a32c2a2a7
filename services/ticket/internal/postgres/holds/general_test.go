package holds_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// counters returns the sums of the counters of all sections.
func counters(t *testing.T, svc *storetest.Service) (held, sold int64) {
	t.Helper()
	require.NoError(t, svc.Pool.QueryRow(t.Context(), `SELECT sum(held), sum(sold) FROM sections`).Scan(&held, &sold))
	return held, sold
}

func TestHoldGeneral(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 55, 5), storetest.Admissions("B", 10, 1)))

	r, err := svc.HoldBest(t.Context(), "u", 3)
	require.NoError(t, err)
	require.Equal(t, "A", r.Section)
	require.Equal(t, 3, r.Quantity)
	require.EqualValues(t, 165, r.Amount)
	require.Empty(t, r.Seats)
	require.Equal(t, r.Until, svc.Find(t, r.ID).Until)
	created := svc.OutboxEvents(t, r.ID)
	require.Len(t, created, 1)
	require.Equal(t, "A", created[0].Section)
	require.Equal(t, "slot-u", created[0].SlotID)
	require.EqualValues(t, 3, created[0].Quantity)

	_, err = svc.HoldBest(t.Context(), "u", 2)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded)
	_, err = svc.HoldBest(t.Context(), "v", 3)
	require.ErrorIs(t, err, reservation.ErrSoldOut)
	_, err = svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "v", Section: "C", Quantity: 1})
	require.ErrorIs(t, err, event.ErrSectionNotFound)
	_, err = svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "x", UserID: "v", Section: "A", Quantity: 1})
	require.ErrorIs(t, err, event.ErrNotFound)

	svc.Clock.Advance(storetest.HoldFor)
	snap, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []int64{5, 1}, snap.Free, "a hold whose time is over is free before anybody frees it")
	_, err = svc.HoldBest(t.Context(), "v", 4)
	require.NoError(t, err, "and may be taken")
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED"}, svc.EventTypes(t, r.ID))
	svc.RequireInvariants(t)
}

// Four hundred requests, each for one to three places, compete for 300 places on two replicas.
// Exactly 300 places are held.
func TestHoldGeneralConcurrently(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	otherReplica := svc.Replica(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 55, 300)))
	var expired []*reservation.Reservation
	for i := range 10 {
		r, err := svc.HoldBest(t.Context(), fmt.Sprintf("gone%d", i), 4)
		require.NoError(t, err)
		expired = append(expired, r)
	}
	svc.Clock.Advance(storetest.HoldFor)

	results := storetest.Concurrently(400, func(i int) error {
		replica := svc
		if i%2 == 0 {
			replica = otherReplica
		}
		_, err := replica.HoldBest(t.Context(), fmt.Sprintf("u%d", i), i%3+1)
		return err
	})
	require.Less(t, storetest.CountSucceeded(t, results, reservation.ErrSoldOut), 400)
	places := 0
	for i, err := range results {
		if err == nil {
			places += i%3 + 1
		}
	}
	held, sold := counters(t, svc)
	require.Zero(t, sold)
	require.EqualValues(t, places, held)
	require.EqualValues(t, 300, held, "someone always wants one place, so none is left")
	for _, r := range expired {
		require.Equal(t, reservation.Expired, svc.Find(t, r.ID).Status)
	}
	svc.RequireInvariants(t)
}

func TestHoldGeneralLimitUnderRaces(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	otherReplica := svc.Replica(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 55, 300), storetest.Admissions("B", 55, 300)))
	results := storetest.Concurrently(40, func(i int) error {
		replica, section := svc, "A" // both replicas lock the same user, but different sections
		if i%2 == 0 {
			replica, section = otherReplica, "B"
		}
		_, err := replica.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "greedy", Section: section, Quantity: 1})
		return err
	})
	require.Equal(t, 4, storetest.CountSucceeded(t, results, reservation.ErrLimitExceeded))
	svc.RequireInvariants(t)
}

func TestGeneralAdmissionFollowsItsReservations(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 55, 20)))
	paid, err := svc.HoldBest(t.Context(), "paid", 2)
	require.NoError(t, err)
	cancelled, err := svc.HoldBest(t.Context(), "cancelled", 3)
	require.NoError(t, err)
	_, err = svc.HoldBest(t.Context(), "lapsed", 4)
	require.NoError(t, err)
	requireSections := func(held, sold int64) {
		t.Helper()
		h, s := counters(t, svc)
		require.Equal(t, [2]int64{held, sold}, [2]int64{h, s})
		svc.RequireInvariants(t)
	}
	requireSections(9, 0)

	p := storetest.Payment(paid)
	_, err = svc.Reservations.BeginPayment(t.Context(), "paid", paid.ID, p.ID, purchase.PayTime{})
	require.NoError(t, err)
	requireSections(9, 0)
	svc.Confirm(t, paid, p)
	requireSections(7, 2)
	require.NoError(t, svc.Reservations.Cancel(t.Context(), "cancelled", "e", cancelled.ID))
	requireSections(4, 2)
	svc.Clock.Advance(storetest.HoldFor)
	n, err := svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, 1, n)
	requireSections(0, 2)
	svc.Refund(t, p, refund.User)
	requireSections(0, 0)
}
