package purchases_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
)

// putHall puts an event of 20 places, whose returned places are for sale again within some seconds.
func putHall(t *testing.T, svc *storetest.Service, seating event.Seating, withinSeconds int32) {
	t.Helper()
	section := storetest.Rows("A", 70, 2, 10)
	if seating == event.General {
		section = storetest.Admissions("A", 70, 20)
	}
	spec := storetest.Spec("e", seating, section)
	spec.ReturnWithin = &withinSeconds
	svc.Put(t, spec)
}

func buyOne(t *testing.T, svc *storetest.Service, user string) purchase.Payment {
	t.Helper()
	held, err := svc.HoldBest(t.Context(), user, 1)
	require.NoError(t, err)
	p := storetest.Payment(held)
	svc.Confirm(t, held, p)
	return p
}

// counters returns how many places are free, kept by the organiser, and returning to the sale.
func counters(t *testing.T, svc *storetest.Service) [3]int64 {
	t.Helper()
	snap, err := svc.EventStore.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	house, err := svc.Events.House(t.Context(), "e")
	require.NoError(t, err)
	return [3]int64{snap.Free[0], house.Sections[0].House, house.Sections[0].Returning}
}

func forEachSeating(t *testing.T, test func(t *testing.T, seating event.Seating)) {
	t.Helper()
	for _, seating := range []event.Seating{event.Assigned, event.General} {
		t.Run(string(seating), func(t *testing.T) {
			t.Parallel()
			test(t, seating)
		})
	}
}

// A place given back is for sale again at a random time, not before a tenth of the waiting time.
func TestPlacesAreSoldAgainLater(t *testing.T) {
	t.Parallel()
	forEachSeating(t, func(t *testing.T, seating event.Seating) {
		t.Helper()
		svc := storetest.New(t)
		putHall(t, svc, seating, 1200)
		for i := range 3 {
			svc.Refund(t, buyOne(t, svc, fmt.Sprint("u", i)), refund.User)
		}
		svc.RequireInvariants(t)
		require.Equal(t, [3]int64{17, 0, 3}, counters(t, svc))
		require.EqualValues(t, 3, svc.Count(t, `SELECT count(DISTINCT release_at) FROM returns`))

		svc.Clock.Advance(119 * time.Second)
		require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
		require.Equal(t, [3]int64{17, 0, 3}, counters(t, svc))
		svc.Clock.Advance(1081 * time.Second)
		for _, err := range storetest.Concurrently(2, func(int) error { return svc.EventStore.ReleaseReturns(t.Context()) }) {
			require.NoError(t, err)
		}
		require.Equal(t, [3]int64{20, 0, 0}, counters(t, svc))
		svc.RequireInvariants(t)
	})
}

// While few places are free, a place that is given back is for sale again later, also if others of
// the event are so at once. Until then a sold-out event stays sold out.
func TestFewPlacesLeft(t *testing.T) {
	t.Parallel()
	forEachSeating(t, func(t *testing.T, seating event.Seating) {
		t.Helper()
		svc := storetest.New(t)
		putHall(t, svc, seating, 0)
		payments := make([]purchase.Payment, 20)
		for i := range payments {
			payments[i] = buyOne(t, svc, fmt.Sprint("u", i/4))
		}
		svc.Refund(t, payments[0], refund.Operator)
		require.Equal(t, [3]int64{0, 0, 1}, counters(t, svc))
		snap, err := svc.EventStore.Snapshot(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, event.StatusSoldOut, snap.Status())
		svc.Refund(t, payments[1], refund.Operator) // what is given back counts as free: 5 %
		require.Equal(t, [3]int64{1, 0, 1}, counters(t, svc))
		svc.RequireInvariants(t)

		svc.Clock.Advance(20 * time.Minute)
		require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
		require.Equal(t, [3]int64{2, 0, 0}, counters(t, svc))
		held, err := svc.HoldBest(t.Context(), "v", 2)
		require.NoError(t, err)
		svc.Refund(t, payments[2], refund.Operator) // held places are not free
		require.Equal(t, [3]int64{0, 0, 1}, counters(t, svc))
		require.NoError(t, svc.Reservations.Cancel(t.Context(), "v", "", held.ID))
		require.Equal(t, [3]int64{0, 0, 1}, counters(t, svc), "places of holds come back later too")
		svc.RequireInvariants(t)
		svc.Clock.Advance(10 * time.Second)
		require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
		require.Equal(t, [3]int64{2, 0, 1}, counters(t, svc))
		svc.RequireInvariants(t)
	})
}

// A place goes to the organiser if its refund begins when nothing is sold any more or doors may have
// lists, or if its release is due only then.
func TestPlacesGivenBackAroundTheClose(t *testing.T) {
	t.Parallel()
	forEachSeating(t, func(t *testing.T, seating event.Seating) {
		t.Helper()
		svc := storetest.New(t)
		putHall(t, svc, seating, 1200)
		early, late := buyOne(t, svc, "u"), buyOne(t, svc, "v")
		closes := 24 * time.Hour // of the sale
		if seating == event.General {
			closes = 47 * time.Hour // of refunds
			_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET sales_close_at = starts_at`)
			require.NoError(t, err)
		}
		svc.Clock.Set(storetest.Start.Add(closes - time.Second))
		begun := svc.BeginRefund(t, svc.RefundRequest(early, refund.Operator))
		svc.Clock.Advance(2 * time.Second)
		svc.Settle(t, storetest.MadeRefund(begun, early))
		svc.Refund(t, late, refund.Operator)
		require.Equal(t, [3]int64{18, 1, 1}, counters(t, svc))
		svc.Clock.Advance(20 * time.Minute)
		require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
		require.Equal(t, [3]int64{18, 2, 0}, counters(t, svc))
		svc.RequireInvariants(t)
	})
}

// Releases and holds compete on two replicas. Each place has at most one owner at any time.
func TestReleasesAgainstHolds(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	putHall(t, svc, event.Assigned, 10)
	replicas := []*storetest.Service{svc, svc.Replica(t)}
	for range races {
		user := uuid.NewString()
		_, p := buy(t, svc, user, "A-1-1")
		svc.Refund(t, p, refund.Operator)
		svc.Clock.Advance(10 * time.Second)
		held := make([]*reservation.Reservation, 2)
		acts := []func() error{
			func() error { return replicas[0].EventStore.ReleaseReturns(t.Context()) },
			func() error { return replicas[1].EventStore.ReleaseReturns(t.Context()) },
			func() (err error) {
				held[0], err = replicas[0].HoldSeats(t.Context(), user, "A-1-1", "A-1-2")
				return err
			},
			func() (err error) { held[1], err = replicas[1].HoldSeats(t.Context(), "v"+user, "A-1-1"); return err },
		}
		results := storetest.Concurrently(len(acts), func(i int) error { return acts[i]() })
		require.NoError(t, results[0])
		require.NoError(t, results[1])
		require.LessOrEqual(t, storetest.CountSucceeded(t, results[2:], reservation.ErrSeatTaken), 1)
		svc.RequireInvariants(t)
		for _, r := range held {
			if r != nil {
				require.NoError(t, svc.Reservations.Cancel(t.Context(), r.UserID, "", r.ID))
			}
		}
	}
	svc.RequireNoDeadlocks(t)
}
