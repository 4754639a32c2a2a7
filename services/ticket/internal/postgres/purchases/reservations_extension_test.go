package purchases_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

// Payments that are declined extend a hold only up to a maximum. Then it expires.
func TestDeclinedPaymentsExtendAHoldAtMost(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]event.Event{
		"seats":             storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)),
		"general admission": storetest.Spec("e", event.General, storetest.Admissions("A", 70, 1)),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, s)
			r, err := svc.HoldBest(t.Context(), "u", 1)
			require.NoError(t, err)
			for range 2 { // each is declined shortly before its time to pay ends
				p := svc.BeginPayment(t, r)
				svc.Clock.Advance(purchase.PayWithin - time.Minute)
				require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
			}
			latestBegin := storetest.MaxExtension - purchase.PayWithin

			p := svc.BeginPayment(t, r)
			svc.Clock.Set(r.OriginalEnd.Add(latestBegin - time.Minute))
			require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
			got := svc.Find(t, r.ID)
			require.Equal(t, reservation.Held, got.Status)
			require.Equal(t, got.OriginalEnd.Add(latestBegin), got.Until, "a minute, not two")

			p = svc.BeginPayment(t, r)
			svc.Clock.Advance(time.Minute)
			require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
			require.Equal(t, reservation.Expired, svc.Find(t, r.ID).Status)
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED"}, svc.EventTypes(t, r.ID))
			_, err = svc.Reservations.BeginPayment(t.Context(), "u", r.ID, uuid.New(), purchase.PayTime{})
			require.ErrorIs(t, err, purchase.ErrHoldExpired)
			svc.Clock.Advance(10 * time.Second)
			require.NoError(t, svc.EventStore.ReleaseReturns(t.Context()))
			_, err = svc.HoldBest(t.Context(), "v", 1)
			require.NoError(t, err, "the place is somebody else's")
			svc.RequireInvariants(t)
		})
	}
}

// After a restart with a shorter MaxExtension, a payment is refused if the hold cannot be extended
// by the whole time to pay.
func TestBeginPaymentRefusesTooLongExtensions(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	p := svc.BeginPayment(t, r)
	svc.Clock.Advance(purchase.PayWithin - time.Minute)
	require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
	restarted := reservation.NewService(svc.Events, svc.Entitlements, svc.Holds, svc.ReservationStore, purchase.PayWithin)
	_, err := restarted.BeginPayment(t.Context(), "u", r.ID, uuid.New(), purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrHoldExpired)
	require.Equal(t, reservation.Held, svc.Find(t, r.ID).Status)
}

// Only holds that are being paid are extended, and only those that end soon are written.
func TestPaymentsAreExtended(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 4)))
	svc.Put(t, storetest.Spec("g", event.General, storetest.Admissions("A", 70, 4)))
	seat := svc.MustHoldSeats(t, "u", "A-1-1")
	short, paid, fresh := svc.BeginPayment(t, seat).ID, uuid.New(), uuid.New()
	svc.Clock.Advance(purchase.PayWithin - time.Minute)
	other := svc.MustHoldSeats(t, "v", "A-1-2")
	_, err := svc.Reservations.BeginPayment(t.Context(), "v", other.ID, fresh, purchase.PayTime{})
	require.NoError(t, err)
	before := svc.Find(t, other.ID)
	all := []purchase.UnderWay{
		{ReferenceID: seat.ID, PaymentID: short}, {ReferenceID: other.ID, PaymentID: fresh}, {ReferenceID: other.ID, PaymentID: paid},
		{ReferenceID: uuid.New(), PaymentID: uuid.New()},
	}
	for range 2 { // a repeated call changes nothing
		underWay, err := svc.Reservations.ExtendPayments(t.Context(), all)
		require.NoError(t, err)
		require.ElementsMatch(t, all[:2], underWay)
		svc.RequireFromNow(t, 3*time.Minute, svc.Find(t, seat.ID).Until)
		require.Equal(t, before, svc.Find(t, other.ID))
	}
	svc.Clock.Advance(2 * time.Minute)
	_, err = svc.HoldSeats(t.Context(), "w", "A-1-1")
	require.ErrorIs(t, err, reservation.ErrSeatTaken, "it would be free by its first end")
	svc.RequireInvariants(t)
	svc.Clock.Advance(time.Minute)
	_, err = svc.Reservations.ExtendPayments(t.Context(), all)
	require.NoError(t, err)
	_, err = svc.HoldSeats(t.Context(), "w", "A-1-1")
	require.NoError(t, err, "what has expired is not brought back")
}
