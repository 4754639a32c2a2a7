package events_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

func TestHouseSeats(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 6), storetest.Rows("B", 50, 1, 2)))
	svc.MustHoldSeats(t, "u", "A-1-5")
	take := event.HouseChange{Take: []string{"B-1-1", "A-1-2", "A-1-1"}}
	want := event.House{SeatIDs: []string{"A-1-1", "A-1-2", "B-1-1"}, Sections: []event.HouseSection{
		{Name: "A", Seated: true, Capacity: 6, House: 2}, {Name: "B", Seated: true, Capacity: 2, House: 1},
	}}
	for range 2 { // a repeated change changes nothing
		house, err := svc.Events.PutHouse(t.Context(), "e", take)
		require.NoError(t, err)
		require.Equal(t, want, house)
		svc.RequireInvariants(t)
	}
	snap, err := svc.Events.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, []int64{3, 1}, snap.Free)
	require.False(t, snap.IsFree(0))
	_, err = svc.HoldSeats(t.Context(), "v", "A-1-1")
	require.ErrorIs(t, err, reservation.ErrSeatTaken)
	_, err = svc.HoldBest(t.Context(), "v", 4)
	require.ErrorIs(t, err, reservation.ErrSoldOut)

	_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-3", "A-1-5"}, Release: []string{"A-1-1"}})
	require.ErrorIs(t, err, errs.ErrSeatTaken)
	require.Equal(t, "A-1-5", errs.From(err).Metadata["seatIds"])
	_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-3", "A-9-9"}})
	require.ErrorIs(t, err, event.ErrSeatNotFound)
	_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-3"}, Release: []string{"A-1-3"}})
	require.ErrorIs(t, err, event.ErrInvalid)
	_, err = svc.Events.PutHouse(t.Context(), "other", event.HouseChange{})
	require.ErrorIs(t, err, event.ErrNotFound)
	house, err := svc.Events.House(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, want, house, "all or nothing")

	for range 2 { // the seat may be sold when the change is repeated
		_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Release: []string{"A-1-1"}})
		require.NoError(t, err)
		svc.RequireInvariants(t)
		_, _ = svc.HoldSeats(t.Context(), "v", "A-1-1")
	}
	require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'HELD'`))
}

// The organiser may take a place whose hold has expired, unless a payment for it began in time.
func TestHouseTakesOverExpiredHolds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 6)))
	due, paying := svc.MustHoldSeats(t, "u", "A-1-1", "A-1-2"), svc.MustHoldSeats(t, "v", "A-1-3")
	svc.BeginPayment(t, paying)
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-2", "A-1-3"}})
	require.ErrorIs(t, err, errs.ErrSeatTaken)
	house, err := svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-2"}})
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-2"}, house.SeatIDs)
	require.Equal(t, reservation.Expired, svc.Find(t, due.ID).Status)
	svc.MustHoldSeats(t, "w", "A-1-1")
	svc.RequireInvariants(t)
}

func TestHouseOfGeneralAdmission(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10), storetest.Admissions("B", 70, 5)))
	held, err := svc.HoldBest(t.Context(), "u", 4)
	require.NoError(t, err)
	standing := func(n int64) event.HouseChange { return event.HouseChange{Standing: map[string]int64{"A": n}} }
	for range 2 {
		house, err := svc.Events.PutHouse(t.Context(), "e", standing(6))
		require.NoError(t, err)
		require.EqualValues(t, 6, house.Sections[0].House)
		svc.RequireInvariants(t)
	}
	_, err = svc.HoldBest(t.Context(), "v", 1)
	require.ErrorIs(t, err, reservation.ErrSoldOut)
	_, err = svc.Events.PutHouse(t.Context(), "e", standing(7))
	require.ErrorIs(t, err, errs.ErrSoldOut)
	svc.Clock.Advance(storetest.HoldFor)
	_, err = svc.Events.PutHouse(t.Context(), "e", standing(7))
	require.NoError(t, err)
	require.Equal(t, reservation.Expired, svc.Find(t, held.ID).Status)
	_, err = svc.Events.PutHouse(t.Context(), "e", standing(1))
	require.NoError(t, err)
	_, err = svc.HoldBest(t.Context(), "v", 4)
	require.NoError(t, err)
	_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Standing: map[string]int64{"Z": 1}})
	require.ErrorIs(t, err, event.ErrSectionNotFound)
	svc.RequireInvariants(t)
}

// An event is sold out when no place is free or held, even if the organiser keeps some.
func TestSoldOutDoesNotCountTheHouse(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 3)))
	status := func() (seen [2]event.Status) {
		snap, err := svc.EventStore.Snapshot(t.Context(), "e")
		require.NoError(t, err)
		line, err := svc.EventStore.SaleStatuses(t.Context(), []string{"e"})
		require.NoError(t, err)
		return [2]event.Status{snap.Status(), line["e"].Status}
	}
	_, err := svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-1"}})
	require.NoError(t, err)
	held := svc.MustHoldSeats(t, "u", "A-1-2", "A-1-3")
	require.Equal(t, [2]event.Status{event.StatusOnSale, event.StatusOnSale}, status())
	svc.Confirm(t, held, storetest.Payment(held))
	require.Equal(t, [2]event.Status{event.StatusSoldOut, event.StatusSoldOut}, status())
	_, err = svc.Events.PutHouse(t.Context(), "e", event.HouseChange{Release: []string{"A-1-1"}})
	require.NoError(t, err)
	require.Equal(t, [2]event.Status{event.StatusOnSale, event.StatusOnSale}, status())
}

// Holds compete with changes of the house on two replicas. Each seat is given to only one.
func TestHouseAgainstHolds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 20)))
	replicas := []*storetest.Service{svc, svc.Replica(t)}
	for i := range houseRaces {
		u, v := fmt.Sprint("u", i), fmt.Sprint("v", i)
		acts := []func() error{
			func() error { _, err := replicas[0].HoldSeats(t.Context(), u, "A-1-1", "A-1-3"); return err },
			func() error {
				_, err := replicas[1].Events.PutHouse(t.Context(), "e", event.HouseChange{Take: []string{"A-1-3", "A-1-2"}})
				return err
			},
		}
		require.Equal(t, 1, storetest.CountSucceeded(t, storetest.Concurrently(2, func(i int) error { return acts[i]() }), errs.ErrSeatTaken))
		svc.RequireInvariants(t)

		acts = []func() error{
			func() error {
				_, err := replicas[1].Events.PutHouse(t.Context(), "e", event.HouseChange{Release: []string{"A-1-3", "A-1-2"}})
				return err
			},
			func() error { _, err := replicas[0].HoldSeats(t.Context(), v, "A-1-2", "A-1-3"); return err },
		}
		errors := storetest.Concurrently(2, func(i int) error { return acts[i]() })
		require.NoError(t, errors[0])
		if errors[1] != nil {
			require.ErrorIs(t, errors[1], errs.ErrSeatTaken)
		}
		svc.RequireInvariants(t)
		svc.Clock.Advance(storetest.HoldFor)
		_, err := svc.Expiry.ExpireDue(t.Context(), 10)
		require.NoError(t, err)
	}
	svc.RequireNoDeadlocks(t)
}

const houseRaces = 20

// Concurrent holds and changes of the house never exceed the capacity of a standing section.
func TestHouseAgainstHoldsOfGeneralAdmission(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 6)))
	replicas := []*storetest.Service{svc, svc.Replica(t)}
	for round := range houseRaces {
		results := storetest.Concurrently(6, func(i int) error {
			if i < 2 {
				change := event.HouseChange{Standing: map[string]int64{"A": rand.Int64N(5)}}
				_, err := replicas[i].Events.PutHouse(t.Context(), "e", change)
				return err
			}
			_, err := replicas[i%2].HoldBest(t.Context(), fmt.Sprintf("u%d-%d", round, i), 2)
			return err
		})
		storetest.CountSucceeded(t, results, errs.ErrSoldOut)
		svc.RequireInvariants(t)
		svc.Clock.Advance(storetest.HoldFor)
		_, err := svc.Expiry.ExpireDue(t.Context(), 10)
		require.NoError(t, err)
		svc.Clock.Advance(10 * time.Second)
		require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
	}
	svc.RequireNoDeadlocks(t)
}
