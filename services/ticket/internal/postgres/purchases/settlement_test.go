package purchases_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
)

func TestPaid(t *testing.T) {
	t.Parallel()
	refused := map[reservation.Status]string{ // reasons for which another payment is rejected
		reservation.Confirmed: "ALREADY_PAID", reservation.Cancelled: "CANCELLED", reservation.Expired: "HOLD_EXPIRED",
		reservation.Rejected: "HOLD_EXPIRED", reservation.Refunded: "REFUNDED", reservation.Voided: "VOIDED",
	}
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r, p := svc.Status, svc.Reservation, svc.Payment
		before := len(svc.OutboxEvents(t, r.ID))
		if !status.Unpaid() && status != reservation.Cancelled && status != reservation.Expired {
			svc.Confirm(t, r, p)
			require.Equal(t, r, svc.Find(t, r.ID), "settled already")
			require.Len(t, svc.OutboxEvents(t, r.ID), before)
		}
		p = storetest.Payment(r)
		svc.Confirm(t, r, p)

		got, events := svc.Find(t, r.ID), svc.OutboxEvents(t, r.ID)
		require.Len(t, events, before+1)
		last := events[before]
		require.Equal(t, p.ID.String(), last.PaymentID)
		require.Equal(t, got.Version, last.Version)
		require.Greater(t, got.Version, r.Version)
		reason, rejected := refused[status]
		if !rejected {
			require.Equal(t, reservation.Confirmed, got.Status)
			require.Equal(t, p.ID, got.PaymentID)
			require.Equal(t, "RESERVATION_CONFIRMED", last.Type)
			return
		}
		require.Equal(t, "RESERVATION_REJECTED", last.Type)
		require.Equal(t, reason, last.Reason)
		require.Equal(t, string(got.Status), last.Status)
		switch status {
		case reservation.Expired, reservation.Cancelled:
			require.Equal(t, reservation.Rejected, got.Status)
		default:
			require.Equal(t, status, got.Status, "one more payment changes nothing")
		}
	})
}

func TestPaidAfterExpiry(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	p := svc.BeginPayment(t, r)
	svc.Clock.Advance(purchase.PayWithin)
	svc.Confirm(t, r, p)
	require.Equal(t, reservation.Rejected, svc.Find(t, r.ID).Status)
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED", "RESERVATION_REJECTED"}, svc.EventTypes(t, r.ID))
	svc.MustHoldSeats(t, "v", "A-1-1")
	svc.RequireInvariants(t)
}

// A record about a payment that was not begun for the reservation changes nothing, in whatever status
// the reservation is, and gives nobody's money back.
func TestPaymentsThatWereNotBegun(t *testing.T) {
	t.Parallel()
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		r := svc.Reservation
		before := len(svc.OutboxEvents(t, r.ID))
		for _, forge := range []func(*settlement.PaymentEvent){
			func(*settlement.PaymentEvent) {}, // another payment
			func(e *settlement.PaymentEvent) { e.ReferenceID = uuid.New() },
			func(e *settlement.PaymentEvent) { e.Payment.ID, e.ReferenceID = svc.Payment.ID, uuid.New() },
			func(e *settlement.PaymentEvent) { e.Payment.ID, e.Payment.Amount = svc.Payment.ID, 1 },
			func(e *settlement.PaymentEvent) { e.Payment.ID, e.Payment.UserID = svc.Payment.ID, "thief" },
		} {
			e := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: storetest.Payment(r)}
			forge(&e)
			require.ErrorIs(t, svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{e}), settlement.ErrNotBegun)
			require.Equal(t, r, svc.Find(t, r.ID))
			require.Len(t, svc.OutboxEvents(t, r.ID), before)
			require.Zero(t, svc.Count(t, `SELECT count(*) FROM ended_payments WHERE payment_id = $1 AND why = 'RESERVATION_NOT_FOUND'`, e.Payment.ID))
		}
	})
}

// What BeginPayment has named is stored for good: payments that were given up, and after the hold.
func TestBegunPaymentsAreStored(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)))
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	first := svc.BeginPayment(t, r)
	require.NoError(t, svc.Reservations.AbortPayment(t.Context(), r.ID, first.ID, purchase.Failure{Declined: true}))
	second := svc.BeginPayment(t, r)
	svc.Clock.Advance(purchase.PayWithin)
	_, err := svc.Expiry.ExpireDue(t.Context(), 10)
	require.NoError(t, err)
	require.Equal(t, []uuid.UUID{first.ID, second.ID}, svc.Find(t, r.ID).Begun)
	for _, p := range []purchase.Payment{first, second} {
		e := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}
		require.NoError(t, svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{e}))
	}
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED", "RESERVATION_REJECTED", "RESERVATION_REJECTED"}, svc.EventTypes(t, r.ID))
	svc.RequireInvariants(t)
}

// What became of payments, as the payment service compares it every night.
func TestSettledPayments(t *testing.T) {
	t.Parallel()
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		want := []settlement.Settled{{PaymentID: svc.Payment.ID, UserID: svc.Reservation.UserID, Paid: 140, Kept: 140, Currency: "KRW"}}
		switch svc.Status {
		case reservation.Rejected:
			want = []settlement.Settled{{PaymentID: svc.Payment.ID, Rejected: "HOLD_EXPIRED"}}
		case reservation.Refunded:
			want[0].Kept = 0
		case reservation.Confirmed, reservation.Voided:
		default:
			want = []settlement.Settled{}
		}
		got, err := svc.Settlement.Settled(t.Context(), []uuid.UUID{svc.Payment.ID})
		require.NoError(t, err)
		require.Equal(t, want, got)
	})
}

func TestRefund(t *testing.T) {
	t.Parallel()
	storetest.ForEachReservationStatus(t, func(t *testing.T, svc storetest.InStatus) {
		t.Helper()
		status, r, p := svc.Status, svc.Reservation, svc.Payment
		before := len(svc.OutboxEvents(t, r.ID))
		for _, cause := range []refund.Cause{refund.Compensation, refund.Transfer} {
			svc.Settle(t, settlement.PaymentEvent{
				Key: uuid.NewString(), ReferenceID: r.ID, Payment: p, Refunded: true, Cause: cause, RefundID: uuid.New(),
			})
		}
		unclaimed := storetest.MadeRefund(&refund.Claim{ID: uuid.New(), Cause: refund.Operator}, p)
		err := svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{unclaimed})
		require.ErrorIs(t, err, settlement.ErrUnclaimed, "nobody knows which tickets it ends")
		refused := svc.BeginRefund(t, svc.RefundRequest(storetest.Payment(r), refund.User))
		require.Equal(t, refund.Refused, refused.Status, "of another payment")
		require.Equal(t, r, svc.Find(t, r.ID))
		require.Len(t, svc.OutboxEvents(t, r.ID), before)

		c := svc.BeginRefund(t, svc.RefundRequest(p, refund.User))
		if status != reservation.Confirmed {
			require.Equal(t, refund.Refused, c.Status)
			require.Equal(t, r, svc.Find(t, r.ID))
			return
		}
		svc.Settle(t, storetest.MadeRefund(c, p))
		require.Equal(t, reservation.Refunded, svc.Find(t, r.ID).Status)
		last := svc.OutboxEvents(t, r.ID)[before]
		require.Equal(t, []string{"RESERVATION_CANCELLED", "REFUNDED", "REFUNDED"}, []string{last.Type, last.Reason, last.Status})
		require.EqualValues(t, 2, last.Quantity)
		require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM tickets WHERE reservation_id = $1 AND status = 'REFUNDED'`, r.ID))
		seats := r.SeatIDs()
		svc.MustHoldSeats(t, "next", seats...)
	})
}

// The confirmation of a payment arrives late, from the dead-letter topic, after the payment was
// refunded by hand.
func TestConfirmationAfterItsRefund(t *testing.T) {
	t.Parallel()
	for name, deliver := range map[string]func(t *testing.T, svc *storetest.Service, events ...settlement.PaymentEvent){
		"together": func(t *testing.T, svc *storetest.Service, events ...settlement.PaymentEvent) {
			t.Helper()
			svc.Settle(t, events...)
		},
		"one by one": func(t *testing.T, svc *storetest.Service, events ...settlement.PaymentEvent) {
			t.Helper()
			for _, e := range events {
				svc.Settle(t, e)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			svc := storetest.New(t)
			svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 2)))
			r := svc.MustHoldSeats(t, "u", "A-1-1")
			p := svc.BeginPayment(t, r)
			c := svc.BeginRefund(t, svc.RefundRequest(p, refund.ByHand))
			require.Equal(t, refund.Begun, c.Status)
			require.Empty(t, c.Items, "no ticket of it is known")
			confirmed := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}
			refunded := storetest.MadeRefund(c, p)
			deliver(t, svc, refunded, confirmed, refunded, confirmed)

			require.Equal(t, reservation.Held, svc.Find(t, r.ID).Status, "no ticket for money that was given back")
			underWay, err := svc.Reservations.ExtendPayments(t.Context(), []purchase.UnderWay{{ReferenceID: r.ID, PaymentID: p.ID}})
			require.NoError(t, err)
			require.Empty(t, underWay, "the claim is over")
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_REJECTED"}, svc.EventTypes(t, r.ID))
			last := svc.OutboxEvents(t, r.ID)[1]
			require.Equal(t, []string{p.ID.String(), "REFUNDED"}, []string{last.PaymentID, last.Reason}, "what is left of it goes back too")
			svc.Confirm(t, r, svc.BeginPayment(t, r))
			require.Equal(t, reservation.Confirmed, svc.Find(t, r.ID).Status, "another payment is welcome")
			svc.RequireInvariants(t)
		})
	}
}

func TestSettleEachEventOnce(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 10)))
	var batch []settlement.PaymentEvent
	for i := range 5 {
		r := svc.MustHoldSeats(t, fmt.Sprintf("u%d", i), fmt.Sprintf("A-1-%d", 2*i+1), fmt.Sprintf("A-1-%d", 2*i+2))
		e := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: storetest.Payment(r)}
		batch = append(batch, e, e)
	}
	svc.Settle(t, batch[:2]...)
	first := batch[0]
	refunded := storetest.MadeRefund(svc.BeginRefund(t, svc.RefundRequest(first.Payment, refund.Operator)), first.Payment)
	batch = append(batch, refunded, refunded)
	svc.Settle(t, batch...)
	svc.Settle(t, batch...)
	svc.Settle(t, batch[3:]...)

	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED", "RESERVATION_CANCELLED"}, svc.EventTypes(t, first.ReferenceID))
	require.EqualValues(t, 4, svc.Count(t, `SELECT count(*) FROM reservations WHERE status = 'CONFIRMED'`))
	require.EqualValues(t, 10, svc.Count(t, `SELECT count(*) FROM tickets`))
	require.EqualValues(t, 8, svc.Count(t, `SELECT count(*) FROM tickets WHERE status = 'VALID'`))
	require.EqualValues(t, 6, svc.Count(t, `SELECT count(*) FROM processed_events`))
	svc.RequireInvariants(t)
}
