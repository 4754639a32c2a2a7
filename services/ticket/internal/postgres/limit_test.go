package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/waittest"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// A payment that begins in the last moment of a hold brings its places over the end. Whoever holds others right after it must not be
// counted as if those were free: the user's lock is between the two.
func TestLimitAtTheEndOfAHold(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]event.Spec{
		"seats":   spec("e", event.Assigned, rows("A", 70, 1, 10)),
		"general": spec("e", event.General, admissions("A", 70, 10), admissions("B", 70, 10)),
	} {
		hold := func(b *bundle, section string, seats ...string) (*reservation.Reservation, error) {
			if name == "seats" {
				return b.hold(t.Context(), "u", seats...)
			}
			return b.holds.HoldGeneral(t.Context(), reservation.BestRequest{EventID: "e", UserID: "u", Section: section, Quantity: len(seats)})
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, s)
			r, err := hold(b, "A", "A-1-1", "A-1-2", "A-1-3", "A-1-4")
			require.NoError(t, err)

			second := make(chan error, 1)
			_, _, err = b.store.Change(t.Context(), r.ID, func(r *reservation.Reservation, _ time.Time) error {
				b.clock.Advance(holdFor)
				go func() {
					_, err := hold(b, "B", "A-1-5", "A-1-6", "A-1-7", "A-1-8")
					second <- err
				}()
				waittest.Until(t, func() bool { return len(second) > 0 || b.waitingForLocks(t) == 1 }, "the second hold waits")
				return r.BeginPayment(uuid.New(), r.ExpiresAt.Add(-time.Microsecond), extension)
			})
			require.NoError(t, err)
			require.ErrorIs(t, <-second, reservation.ErrLimitExceeded)
			b.requireInvariants(t)
		})
	}
}
