package reservations_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/reservation"
)

func TestBeginPayment(t *testing.T) {
	t.Parallel()
	want := map[reservation.Status]*errs.Error{
		reservation.Paying: reservation.ErrPaymentInProgress, reservation.Confirmed: reservation.ErrAlreadyPaid,
		reservation.Cancelled: reservation.ErrNotPayable, reservation.Expired: reservation.ErrHoldExpired,
		reservation.Rejected: reservation.ErrNotPayable, reservation.Refunded: reservation.ErrNotPayable, reservation.Voided: reservation.ErrNotPayable,
	}
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r, p := svc.Status, svc.Reservation, svc.Payment
		_, err := svc.Reservations.BeginPayment(t.Context(), "someone else", r.ID, uuid.New())
		require.ErrorIs(t, err, reservation.ErrReferenceNotFound)
		if status == reservation.Paying {
			again, err := svc.Reservations.BeginPayment(t.Context(), r.UserID, r.ID, p.ID)
			require.NoError(t, err)
			require.Equal(t, r.ExpiresAt, again.Reservation.ExpiresAt, "a repetition gives no more time")
			require.Equal(t, r.Version, again.Reservation.Version)
		}
		got, err := svc.Reservations.BeginPayment(t.Context(), r.UserID, r.ID, uuid.New())
		if w, refused := want[status]; refused {
			require.ErrorIs(t, err, w)
			require.Equal(t, r, svc.Find(t, r.ID))
			return
		}
		require.NoError(t, err)
		svc.RequireFromNow(t, reservation.PayWithin, got.Reservation.ExpiresAt)
		require.Equal(t, "Concert e", got.EventTitle)
	})
}

func TestBeginPaymentAfterTheHold(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Reservations.BeginPayment(t.Context(), "u", r.ID, uuid.New())
	require.ErrorIs(t, err, reservation.ErrHoldExpired)
	_, err = svc.Reservations.Payable(t.Context(), "u", r.ID)
	require.ErrorIs(t, err, reservation.ErrHoldExpired)
	_, err = svc.Reservations.Payable(t.Context(), "u", uuid.New())
	require.ErrorIs(t, err, reservation.ErrReferenceNotFound)
	_, err = svc.Reservations.BeginPayment(t.Context(), "u", uuid.New(), uuid.New())
	require.ErrorIs(t, err, reservation.ErrReferenceNotFound)
	require.ErrorIs(t, svc.Reservations.AbortPayment(t.Context(), uuid.New(), uuid.New(), reservation.Failure{}), reservation.ErrReferenceNotFound)
}

func TestAbortPayment(t *testing.T) {
	t.Parallel()
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r, p := svc.Status, svc.Reservation, svc.Payment
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, uuid.New(), reservation.Failure{}))
		require.Equal(t, r, svc.Find(t, r.ID), "another payment's decline means nothing")
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, reservation.Failure{}))
		got := svc.Find(t, r.ID)
		if status != reservation.Paying {
			require.Equal(t, r, got)
			return
		}
		require.Equal(t, reservation.Held, got.Status)
		require.Equal(t, r.HoldEndsAt, got.ExpiresAt, "what was left of the hold")
		require.Equal(t, uuid.Nil, got.PaymentID)

		svc.Clock.Set(r.HoldEndsAt.Add(-30 * time.Second))
		p = svc.BeginPayment(t, r)
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, reservation.Failure{}))
		svc.RequireFromNow(t, reservation.RetryWithin, svc.Find(t, r.ID).ExpiresAt) // not the 30 seconds that were left

		p = svc.BeginPayment(t, r)
		svc.Clock.Advance(reservation.PayWithin)
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, reservation.Failure{}))
		require.Equal(t, reservation.Paying, svc.Find(t, r.ID).Status, "what has expired is not brought back")
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	want := map[reservation.Status]*errs.Error{
		reservation.Paying: reservation.ErrNotHeld, reservation.Confirmed: reservation.ErrNotHeld, reservation.Expired: reservation.ErrHoldExpired,
		reservation.Rejected: reservation.ErrNotHeld, reservation.Refunded: reservation.ErrNotHeld, reservation.Voided: reservation.ErrNotHeld,
	}
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r := svc.Status, svc.Reservation
		require.ErrorIs(t, svc.Reservations.Cancel(t.Context(), "someone else", "", r.ID), reservation.ErrNotFound)
		require.ErrorIs(t, svc.Reservations.Cancel(t.Context(), r.UserID, "other", r.ID), event.ErrWrongEvent)
		before := len(svc.OutboxEvents(t, r.ID))
		err := svc.Reservations.Cancel(t.Context(), r.UserID, "e", r.ID)
		if w, refused := want[status]; refused {
			require.ErrorIs(t, err, w)
			require.Equal(t, r, svc.Find(t, r.ID))
			return
		}
		require.NoError(t, err)
		require.NoError(t, svc.Reservations.Cancel(t.Context(), r.UserID, "e", r.ID))
		require.Equal(t, reservation.Cancelled, svc.Find(t, r.ID).Status)
		if status == reservation.Held {
			require.Len(t, svc.OutboxEvents(t, r.ID), before+1, "published once")
			require.Equal(t, "USER", svc.OutboxEvents(t, r.ID)[before].Reason)
		}
	})
}
