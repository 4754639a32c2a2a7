package holds_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

// A payment that begins in the last moment of a hold extends it. If the user requests another hold
// right after the original end, it must count the extended places. The user's lock ensures this.
func TestLimitAtTheEndOfAHold(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]event.Event{
		"seats":   storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)),
		"general": storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10), storetest.Admissions("B", 70, 10)),
	} {
		hold := func(svc *storetest.Service, section string, seats ...string) (*reservation.Reservation, error) {
			if name == "seats" {
				return svc.HoldSeats(t.Context(), "u", seats...)
			}
			return svc.Holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "e", UserID: "u", Section: section, Quantity: len(seats)})
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, s)
			r, err := hold(svc, "A", "A-1-1", "A-1-2", "A-1-3", "A-1-4")
			require.NoError(t, err)

			second := make(chan error, 1)
			_, err = svc.ReservationStore.Change(t.Context(), r.ID, func(r *reservation.Reservation, _ time.Time) error {
				svc.Clock.Advance(storetest.HoldFor)
				go func() {
					_, err := hold(svc, "B", "A-1-5", "A-1-6", "A-1-7", "A-1-8")
					second <- err
				}()
				testkit.Until(t, func() bool { return len(second) > 0 || svc.WaitingForLocks(t) == 1 }, "the second hold waits")
				p := &reservation.Purchase{Reservation: r}
				return purchase.Begin(p, r.UserID, uuid.New(), purchase.PayTime{}, r.Until.Add(-time.Microsecond), storetest.MaxExtension)
			})
			require.NoError(t, err)
			require.ErrorIs(t, <-second, reservation.ErrLimitExceeded)
			svc.RequireInvariants(t)
		})
	}
}
