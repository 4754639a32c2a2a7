package purchases_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/reservation"
)

func TestBeginPayment(t *testing.T) {
	t.Parallel()
	want := map[reservation.Status]*errs.Error{
		reservation.Paying: purchase.ErrPaymentInProgress, reservation.Confirmed: purchase.ErrAlreadyPaid,
		reservation.Cancelled: purchase.ErrNotPayable, reservation.Expired: purchase.ErrHoldExpired,
		reservation.Rejected: purchase.ErrNotPayable, reservation.Refunded: purchase.ErrNotPayable, reservation.Voided: purchase.ErrNotPayable,
	}
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r, p := svc.Status, svc.Reservation, svc.Payment
		_, err := svc.Reservations.BeginPayment(t.Context(), "someone else", r.ID, uuid.New(), purchase.PayTime{})
		require.ErrorIs(t, err, purchase.ErrReferenceNotFound)
		if status == reservation.Paying {
			again, err := svc.Reservations.BeginPayment(t.Context(), r.UserID, r.ID, p.ID, purchase.PayTime{})
			require.NoError(t, err)
			require.Equal(t, r.Until, again.ExpiresAt, "a repetition gives no more time")
			require.Equal(t, r.Version, svc.Find(t, r.ID).Version)
		}
		got, err := svc.Reservations.BeginPayment(t.Context(), r.UserID, r.ID, uuid.New(), purchase.PayTime{})
		if w, refused := want[status]; refused {
			require.ErrorIs(t, err, w)
			require.Equal(t, r, svc.Find(t, r.ID))
			return
		}
		require.NoError(t, err)
		svc.RequireFromNow(t, purchase.PayWithin, got.ExpiresAt)
		require.Contains(t, got.Description, "Concert e: ")
	})
}

func TestBeginPaymentAfterTheHold(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Reservations.BeginPayment(t.Context(), "u", r.ID, uuid.New(), purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrHoldExpired)
	_, err = svc.Reservations.Payable(t.Context(), "u", r.ID)
	require.ErrorIs(t, err, purchase.ErrHoldExpired)
	_, err = svc.Reservations.Payable(t.Context(), "u", uuid.New())
	require.ErrorIs(t, err, purchase.ErrReferenceNotFound)
	_, err = svc.Reservations.BeginPayment(t.Context(), "u", uuid.New(), uuid.New(), purchase.PayTime{})
	require.ErrorIs(t, err, purchase.ErrReferenceNotFound)
	require.ErrorIs(t, svc.Reservations.AbortPayment(t.Context(), uuid.New(), uuid.New(), purchase.Failure{}), purchase.ErrReferenceNotFound)
}

func TestAbortPayment(t *testing.T) {
	t.Parallel()
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r, p := svc.Status, svc.Reservation, svc.Payment
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, uuid.New(), purchase.Failure{}))
		require.Equal(t, r, svc.Find(t, r.ID), "another payment's decline means nothing")
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
		got := svc.Find(t, r.ID)
		if status != reservation.Paying {
			require.Equal(t, r, got)
			return
		}
		require.Equal(t, reservation.Held, got.Status)
		require.Equal(t, r.OriginalEnd, got.Until, "what was left of the hold")
		require.Equal(t, uuid.Nil, got.PaymentID)

		svc.Clock.Set(r.OriginalEnd.Add(-30 * time.Second))
		p = svc.BeginPayment(t, r)
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
		svc.RequireFromNow(t, purchase.RetryWithin, svc.Find(t, r.ID).Until) // not the 30 seconds that were left

		p = svc.BeginPayment(t, r)
		svc.Clock.Advance(purchase.PayWithin)
		require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, p.ID, purchase.Failure{}))
		require.Equal(t, reservation.Paying, svc.Find(t, r.ID).Status, "what has expired is not brought back")
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	want := map[reservation.Status]*errs.Error{
		reservation.Paying: reservation.ErrNotHeld, reservation.Confirmed: reservation.ErrNotHeld, reservation.Expired: purchase.ErrHoldExpired,
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
