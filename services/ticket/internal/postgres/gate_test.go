package postgres_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/idempotency"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres"
	"urr.guru/services/ticket/internal/reservation"
)

// Whatever holders ask for, no more of them are in the database at once than the gate lets in: payments need connections too.
func TestEveryHoldGoesThroughTheGate(t *testing.T) {
	t.Parallel()
	const inflight, crowd = 2, 60
	b := setup(t)
	holds := postgres.NewHolds(b.store, inflight)
	t.Cleanup(func() { require.NoError(t, holds.Close(context.Background())) })
	reservations := reservation.NewService(b.events, holds, b.store, extension)
	b.put(t, spec("free", event.Assigned, rows("A", 70, 10, 20)))
	b.put(t, spec("scattered", event.Assigned, rows("A", 70, 1, 3)))
	b.put(t, spec("e", event.Assigned, rows("A", 70, 10, 20)))
	_, err := holds.HoldSeats(t.Context(), reservation.SeatsRequest{EventID: "scattered", UserID: "u", SeatIDs: []string{"A-1-2"}})
	require.NoError(t, err)
	for i := range 20 {
		b.put(t, spec(fmt.Sprintf("general%d", i), event.General, admissions("A", 70, crowd)))
	}
	for name, ask := range map[string]func(i int) error{
		"named seats": func(i int) error {
			_, err := holds.HoldSeats(t.Context(), reservation.SeatsRequest{
				EventID: "e", UserID: fmt.Sprint(i), SeatIDs: []string{event.SeatID("A", 1+i/20, 1+i%20)},
			})
			return err
		},
		"best seats": func(i int) error {
			once, err := idempotency.New(fmt.Sprint(i), "HoldBest", "key", "")
			if err != nil {
				return err
			}
			_, err = reservations.HoldBest(t.Context(), reservation.BestRequest{
				EventID: "free", UserID: fmt.Sprint(i), Section: "A", Quantity: 1, Once: once,
			})
			return err
		},
		"seats that are not next to each other": func(i int) error {
			_, err := reservations.HoldBest(t.Context(), reservation.BestRequest{
				EventID: "scattered", UserID: fmt.Sprint(i), Section: "A", Quantity: 2, Adjacent: true,
			})
			require.ErrorIs(t, err, reservation.ErrTryAgain)
			return nil
		},
		"general admission of many events": func(i int) error {
			_, err := reservations.HoldBest(t.Context(), reservation.BestRequest{
				EventID: fmt.Sprintf("general%d", i%20), UserID: fmt.Sprint(i), Section: "A", Quantity: 1,
			})
			return err
		},
	} {
		most := b.used.most(func() {
			for _, err := range together(crowd, ask) {
				require.NoError(t, err, name)
			}
		})
		require.LessOrEqual(t, most, inflight, name)
		require.Positive(t, most, name)
	}
}
