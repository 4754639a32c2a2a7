package holds_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/holds"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

// Holds of any kind, for any number of events, use a limited number of connections, since payments
// need connections too.
func TestHoldsUseABoundedNumberOfConnections(t *testing.T) {
	t.Parallel()
	const concurrent, crowd, generalEvents = 2, 60, 20
	requestFor := map[string]func(ctx context.Context, s *reservation.Service, i int) error{
		"named seats": func(ctx context.Context, s *reservation.Service, i int) error {
			_, err := s.HoldSeats(ctx, reservation.SeatsRequest{
				EventID: "named", UserID: fmt.Sprint(i), SeatIDs: []string{event.SeatID("A", 1+i/20, 1+i%20)},
			})
			return err
		},
		"best seats": func(ctx context.Context, s *reservation.Service, i int) error {
			_, err := s.HoldBest(ctx, reservation.BestRequest{
				EventID: "best", UserID: fmt.Sprint(i), Section: "A", Quantity: 1, IdempotencyKey: key(t, fmt.Sprint(i), "key"),
			})
			return err
		},
		"seats that are not adjacent": func(ctx context.Context, s *reservation.Service, i int) error {
			_, err := s.HoldBest(ctx, reservation.BestRequest{
				EventID: "scattered", UserID: fmt.Sprint(i), Section: "A", Quantity: 2, Adjacent: true,
			})
			require.ErrorIs(t, err, reservation.ErrNotAdjacent)
			return nil
		},
		"general admission": func(ctx context.Context, s *reservation.Service, i int) error {
			_, err := s.HoldBest(ctx, reservation.BestRequest{
				EventID: fmt.Sprintf("general%d", i%generalEvents), UserID: fmt.Sprint(i), Section: "A", Quantity: 1,
			})
			return err
		},
	}
	svc := storetest.New(t)
	store := holds.NewStore(svc.Database, concurrent, storetest.HoldFor)
	t.Cleanup(func() { require.NoError(t, store.Close(context.Background())) })
	reservations := reservation.NewService(svc.Events, svc.Entitlements, store, svc.ReservationStore, storetest.MaxExtension)
	putCrowdedSales(t, svc, crowd, generalEvents)
	for name, request := range requestFor {
		peak := svc.Connections.Peak(func() {
			for _, err := range storetest.Concurrently(crowd, func(i int) error { return request(t.Context(), reservations, i) }) {
				require.NoError(t, err, name)
			}
		})
		require.LessOrEqual(t, peak, concurrent, name)
		require.Positive(t, peak, name)
	}
}

// putCrowdedSales puts the events "named" and "best" with seats for a crowd, "scattered" with two
// seats that are not adjacent, and a number of events "general<i>".
func putCrowdedSales(t *testing.T, svc *storetest.Service, crowd int64, generalEvents int) {
	t.Helper()
	svc.Put(t, storetest.Spec("named", event.Assigned, storetest.Rows("A", 70, 10, 20)))
	svc.Put(t, storetest.Spec("best", event.Assigned, storetest.Rows("A", 70, 10, 20)))
	svc.Put(t, storetest.Spec("scattered", event.Assigned, storetest.Rows("A", 70, 1, 3)))
	_, err := svc.Holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: "scattered", UserID: "u", SeatIDs: []string{"A-1-2"}})
	require.NoError(t, err)
	for i := range generalEvents {
		svc.Put(t, storetest.Spec(fmt.Sprintf("general%d", i), event.General, storetest.Admissions("A", 70, crowd)))
	}
}
