package postgres_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// The visitor has declined payments for so long that the hold could not be extended by another one.
func TestAHoldIsNotExtendedForEver(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]event.Spec{
		"seats":             spec("e", event.Assigned, rows("A", 70, 1, 2)),
		"general admission": spec("e", event.General, admissions("A", 70, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, s)
			r, err := b.best(t.Context(), "u", 1)
			require.NoError(t, err)
			for range 2 { // each declined shortly before its time is over
				p := life[reservation.Paying](t, b, r)
				b.clock.Advance(reservation.PayWithin - time.Minute)
				require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
			}
			lastBegin := extension - reservation.PayWithin

			p := life[reservation.Paying](t, b, r)
			b.clock.Set(r.HoldEndsAt.Add(lastBegin - time.Minute))
			require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
			got := b.find(t, r.ID)
			require.Equal(t, reservation.Held, got.Status)
			require.Equal(t, got.HoldEndsAt.Add(lastBegin), got.ExpiresAt, "a minute, not two")

			p = life[reservation.Paying](t, b, r)
			b.clock.Advance(time.Minute)
			require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
			require.Equal(t, reservation.Expired, b.find(t, r.ID).Status)
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED"}, b.types(t, r.ID))
			_, err = b.reservations.BeginPayment(t.Context(), "u", r.ID, uuid.New())
			require.ErrorIs(t, err, reservation.ErrHoldExpired)
			_, err = b.best(t.Context(), "v", 1)
			require.NoError(t, err, "the place is somebody else's at once")
			b.requireInvariants(t)
		})
	}
}

// As after a restart with a shorter extension: a payment that could not have its whole time is not begun.
func TestBeginPaymentRefusesWhatWouldLastTooLong(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 2)))
	r := b.mustHold(t, "u", "A-1-1")
	p := life[reservation.Paying](t, b, r)
	b.clock.Advance(reservation.PayWithin - time.Minute)
	require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
	restarted := reservation.NewService(b.events, b.holds, b.store, reservation.PayWithin)
	_, err := restarted.BeginPayment(t.Context(), "u", r.ID, uuid.New())
	require.ErrorIs(t, err, reservation.ErrHoldExpired)
	require.Equal(t, reservation.Held, b.find(t, r.ID).Status)
}
