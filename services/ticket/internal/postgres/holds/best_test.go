package holds_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

func TestHoldBestSeats(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 2, 7), storetest.Rows("B", 50, 1, 4)))

	first, err := svc.HoldBest(t.Context(), "u1", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-3", "A-1-4"}, first.SeatIDs(), "the middle of the front row")
	svc.Clock.Advance(time.Minute)
	second, err := svc.HoldBest(t.Context(), "u2", 3)
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-5", "A-1-6", "A-1-7"}, second.SeatIDs())

	svc.Clock.Advance(storetest.HoldFor - time.Minute) // only the first hold has expired
	fresh := svc.Replica(t)                            // a new replica has no older snapshot
	third, err := fresh.HoldBest(t.Context(), "u3", 4)
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-1", "A-1-2", "A-1-3", "A-1-4"}, third.SeatIDs(), "over the hold whose time is over")
	require.Equal(t, reservation.Expired, svc.Find(t, first.ID).Status)

	_, err = svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "u", Section: "C", Quantity: 1})
	require.ErrorIs(t, err, event.ErrSectionNotFound)
	svc.RequireInvariants(t)
}

func TestHoldBestRefusals(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
	svc.MustHoldSeats(t, "u1", "A-1-2")
	svc.MustHoldSeats(t, "u2", "A-1-4")

	_, err := svc.HoldBest(t.Context(), "u", 2)
	require.ErrorIs(t, err, reservation.ErrNotAdjacent, "two are free, but not next to each other")
	_, err = svc.HoldBest(t.Context(), "u", 3)
	require.ErrorIs(t, err, reservation.ErrSoldOut)
	loose, err := svc.Reservations.HoldBest(t.Context(), reservation.BestRequest{EventID: "e", UserID: "u", Section: "A", Quantity: 2})
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-1", "A-1-3"}, loose.SeatIDs())
	_, err = svc.HoldBest(t.Context(), "v", 1)
	require.ErrorIs(t, err, reservation.ErrSoldOut)
	_, err = svc.HoldBest(t.Context(), "v", 5)
	require.ErrorIs(t, err, reservation.ErrLimitExceeded, "which trying again would not mend")
	_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'PAUSED'`)
	require.NoError(t, err)
	_, err = svc.Replica(t).HoldBest(t.Context(), "v", 1)
	require.ErrorIs(t, err, event.ErrSaleNotOpen)
	svc.RequireInvariants(t)
}

// If the requests want as many seats as there are, all seats are held. A request that finds seats
// locked is never refused as sold out.
func TestHoldBestConcurrently(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		adjacent  bool
		crowd     int
		remaining int64
	}{
		"any seats":  {adjacent: false, crowd: 100, remaining: 0},
		"neighbours": {adjacent: true, crowd: 60, remaining: 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			otherReplica := svc.Replica(t)
			svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 10, 20)))
			ctx, cancel := testkit.Context(t)
			defer cancel()
			held := make([]*reservation.Reservation, c.crowd)
			for _, err := range storetest.Concurrently(c.crowd, func(i int) (err error) {
				replica := svc
				if i%2 == 0 {
					replica = otherReplica
				}
				req := reservation.BestRequest{EventID: "e", UserID: fmt.Sprintf("u%d", i), Section: "A", Quantity: 2, Adjacent: c.adjacent}
				for held[i] == nil && (err == nil || errors.Is(err, reservation.ErrTryAgain)) {
					held[i], err = replica.Reservations.HoldBest(ctx, req)
				}
				return err
			}) {
				require.NoError(t, err)
			}
			for _, r := range held {
				if c.adjacent {
					require.Equal(t, r.Seats[0].Row, r.Seats[1].Row)
					require.Equal(t, r.Seats[0].Number+1, r.Seats[1].Number)
				}
			}
			require.Equal(t, c.remaining, svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'FREE'`))
			svc.RequireInvariants(t)
		})
	}
}
