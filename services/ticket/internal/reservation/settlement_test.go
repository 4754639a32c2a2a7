package reservation_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/reservation"
)

// settlementOf is a settlement of one reservation, without known refunds.
func settlementOf(r *reservation.Reservation) reservation.Settlement {
	find := func(id uuid.UUID) *reservation.Reservation {
		if id != r.ID {
			return nil
		}
		return r
	}
	return reservation.Settlement{Find: find, Refunds: make(map[uuid.UUID]int64), Now: noon.Add(time.Minute)}
}

func TestApplyConfirmsAndRefundsInOrder(t *testing.T) {
	t.Parallel()
	r := held()
	confirmed := reservation.PaymentEvent{ReservationID: r.ID, Payment: pay(r), Version: 3}
	refunded := confirmed
	refunded.Version, refunded.Refunded, refunded.Cause = 5, true, reservation.CauseUser
	s := settlementOf(r)
	require.Empty(t, s.Apply([]reservation.PaymentEvent{confirmed, refunded}))
	require.Equal(t, reservation.Refunded, r.Status)
}

func TestApplyRejectsAConfirmationAfterItsRefund(t *testing.T) {
	t.Parallel()
	r := held()
	r.TakeEvents()
	p := pay(r)
	s := settlementOf(r)
	s.Refunds[p.ID] = 5
	require.Empty(t, s.Apply([]reservation.PaymentEvent{{ReservationID: r.ID, Payment: p, Version: 3}}))
	require.Equal(t, reservation.Held, r.Status)
	events := r.TakeEvents()
	require.Len(t, events, 1)
	require.Equal(t, reservation.EventPaymentRejected, events[0].Type)
	require.Equal(t, reservation.ReasonRefunded, events[0].Reason)
}

func TestApplyRejectsPaymentsOfUnknownReservations(t *testing.T) {
	t.Parallel()
	r := held()
	paid := reservation.PaymentEvent{ReservationID: uuid.New(), Payment: pay(r)}
	refunded := paid
	refunded.Refunded = true
	s := settlementOf(r)
	rejected := s.Apply([]reservation.PaymentEvent{paid, refunded})
	require.Len(t, rejected, 1, "a refund needs no answer")
	require.Equal(t, paid.ReservationID, rejected[0].Reservation.ID)
	require.Equal(t, reservation.ReasonUnknown, rejected[0].Reason)
	require.Equal(t, reservation.Held, r.Status)
}
