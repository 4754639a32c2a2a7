package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// life brings a fresh hold into a status, and returns the payment that did, if any.
var life = map[reservation.Status]func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment{
	reservation.Held: func(_ *testing.T, _ *bundle, r *reservation.Reservation) reservation.Payment { return payment(r) },
	reservation.Paying: func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment {
		t.Helper()
		p := payment(r)
		_, err := b.reservations.BeginPayment(t.Context(), r.UserID, r.ID, p.ID)
		require.NoError(t, err)
		return p
	},
	reservation.Confirmed: func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment {
		t.Helper()
		p := payment(r)
		b.paid(t, r, p)
		return p
	},
	reservation.Cancelled: func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment {
		t.Helper()
		require.NoError(t, b.reservations.Cancel(t.Context(), r.UserID, "", r.ID))
		return payment(r)
	},
	reservation.Expired: func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment {
		t.Helper()
		b.clock.Advance(holdFor)
		_, err := b.store.ExpireDue(t.Context(), 10)
		require.NoError(t, err)
		return payment(r)
	},
	reservation.Rejected: func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment {
		t.Helper()
		b.clock.Advance(holdFor)
		p := payment(r)
		b.paid(t, r, p)
		return p
	},
	reservation.Refunded: func(t *testing.T, b *bundle, r *reservation.Reservation) reservation.Payment {
		t.Helper()
		p := payment(r)
		b.paid(t, r, p)
		b.settle(t, reservation.PaymentEvent{Key: uuid.NewString(), ReservationID: r.ID, Payment: p, Refunded: true, Cause: reservation.CauseOperator})
		return p
	},
}

// stage is a reservation in some status, and the payment that brought it there (or one that could be made now).
type stage struct {
	t      *testing.T
	b      *bundle
	status reservation.Status
	r      *reservation.Reservation
	p      reservation.Payment
}

// eachStatus runs a test on a reservation in every status.
func eachStatus(t *testing.T, test func(at stage)) {
	t.Helper()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, len32(life), 2)))
	row := 0
	for status, lead := range life {
		row++
		user := "user-" + string(status)
		r := b.mustHold(t, user, fmt.Sprintf("A-%d-1", row), fmt.Sprintf("A-%d-2", row))
		p := lead(t, b, r)
		r = b.find(t, r.ID)
		require.Equal(t, status, r.Status)
		t.Run(string(status), func(t *testing.T) {
			test(stage{t, b, status, r, p})
			b.requireInvariants(t)
		})
	}
}

func len32[K comparable, V any](m map[K]V) int32 { return int32(len(m)) } //nolint:gosec // a handful

func TestBeginPayment(t *testing.T) {
	t.Parallel()
	want := map[reservation.Status]*errs.Error{
		reservation.Paying: reservation.ErrPaymentInProgress, reservation.Confirmed: reservation.ErrAlreadyPaid,
		reservation.Cancelled: reservation.ErrNotPayable, reservation.Expired: reservation.ErrHoldExpired,
		reservation.Rejected: reservation.ErrNotPayable, reservation.Refunded: reservation.ErrNotPayable,
	}
	eachStatus(t, func(at stage) {
		t, b, s, r, p := at.t, at.b, at.status, at.r, at.p
		_, err := b.reservations.BeginPayment(t.Context(), "someone else", r.ID, uuid.New())
		require.ErrorIs(t, err, reservation.ErrReferenceNotFound)
		if s == reservation.Paying {
			again, err := b.reservations.BeginPayment(t.Context(), r.UserID, r.ID, p.ID)
			require.NoError(t, err)
			require.Equal(t, r.ExpiresAt, again.Reservation.ExpiresAt, "a repetition gives no more time")
			require.Equal(t, r.Version, again.Reservation.Version)
		}
		got, err := b.reservations.BeginPayment(t.Context(), r.UserID, r.ID, uuid.New())
		if w, refused := want[s]; refused {
			require.ErrorIs(t, err, w)
			require.Equal(t, r, b.find(t, r.ID))
			return
		}
		require.NoError(t, err)
		b.requireIn(t, reservation.PayWithin, got.Reservation.ExpiresAt)
		require.Equal(t, "Concert e", got.EventTitle)
	})
}

func TestBeginPaymentAfterTheHold(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 2)))
	r := b.mustHold(t, "u", "A-1-1")
	b.clock.Advance(holdFor)
	_, err := b.reservations.BeginPayment(t.Context(), "u", r.ID, uuid.New())
	require.ErrorIs(t, err, reservation.ErrHoldExpired)
	_, err = b.reservations.Payable(t.Context(), "u", r.ID)
	require.ErrorIs(t, err, reservation.ErrHoldExpired)
	_, err = b.reservations.Payable(t.Context(), "u", uuid.New())
	require.ErrorIs(t, err, reservation.ErrReferenceNotFound)
	_, err = b.reservations.BeginPayment(t.Context(), "u", uuid.New(), uuid.New())
	require.ErrorIs(t, err, reservation.ErrReferenceNotFound)
	require.ErrorIs(t, b.reservations.AbortPayment(t.Context(), uuid.New(), uuid.New()), reservation.ErrReferenceNotFound)
}

func TestAbortPayment(t *testing.T) {
	t.Parallel()
	eachStatus(t, func(at stage) {
		t, b, s, r, p := at.t, at.b, at.status, at.r, at.p
		require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, uuid.New()))
		require.Equal(t, r, b.find(t, r.ID), "another payment's decline means nothing")
		require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
		got := b.find(t, r.ID)
		if s != reservation.Paying {
			require.Equal(t, r, got)
			return
		}
		require.Equal(t, reservation.Held, got.Status)
		require.Equal(t, r.HoldEndsAt, got.ExpiresAt, "what was left of the hold")
		require.Equal(t, uuid.Nil, got.PaymentID)

		b.clock.Set(r.HoldEndsAt.Add(-30 * time.Second))
		p = life[reservation.Paying](t, b, r)
		require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
		b.requireIn(t, reservation.RetryWithin, b.find(t, r.ID).ExpiresAt) // not the 30 seconds that were left

		p = life[reservation.Paying](t, b, r)
		b.clock.Advance(reservation.PayWithin)
		require.NoError(t, b.reservations.AbortPayment(t.Context(), r.ID, p.ID))
		require.Equal(t, reservation.Paying, b.find(t, r.ID).Status, "what has expired is not brought back")
	})
}

func TestPaid(t *testing.T) {
	t.Parallel()
	refused := map[reservation.Status]string{ // by a payment that is not the one before
		reservation.Confirmed: "ALREADY_PAID", reservation.Cancelled: "CANCELLED", reservation.Expired: "HOLD_EXPIRED",
		reservation.Rejected: "HOLD_EXPIRED", reservation.Refunded: "REFUNDED",
	}
	eachStatus(t, func(at stage) {
		t, b, s, r, p := at.t, at.b, at.status, at.r, at.p
		before := len(b.told(t, r.ID))
		if !s.Unpaid() && s != reservation.Cancelled && s != reservation.Expired {
			b.paid(t, r, p)
			require.Equal(t, r, b.find(t, r.ID), "settled already")
			require.Len(t, b.told(t, r.ID), before)
		}
		p = payment(r)
		b.paid(t, r, p)

		got, events := b.find(t, r.ID), b.told(t, r.ID)
		require.Len(t, events, before+1)
		last := events[before]
		require.Equal(t, p.ID.String(), last.PaymentID)
		require.Equal(t, got.Version, last.Version)
		require.Greater(t, got.Version, r.Version)
		reason, rejected := refused[s]
		if !rejected {
			require.Equal(t, reservation.Confirmed, got.Status)
			require.Equal(t, p.ID, got.PaymentID)
			require.Equal(t, "RESERVATION_CONFIRMED", last.Type)
			return
		}
		require.Equal(t, "RESERVATION_REJECTED", last.Type)
		require.Equal(t, reason, last.Reason)
		require.Equal(t, string(got.Status), last.Status)
		switch s {
		case reservation.Expired, reservation.Cancelled:
			require.Equal(t, reservation.Rejected, got.Status)
		default:
			require.Equal(t, s, got.Status, "one more payment changes nothing")
		}
	})
}

func TestPaidAfterItsTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 2)))
	r := b.mustHold(t, "u", "A-1-1")
	p := life[reservation.Paying](t, b, r)
	b.clock.Advance(reservation.PayWithin)
	b.paid(t, r, p)
	require.Equal(t, reservation.Rejected, b.find(t, r.ID).Status)
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_EXPIRED", "RESERVATION_REJECTED"}, b.types(t, r.ID))
	b.mustHold(t, "v", "A-1-1")
	b.requireInvariants(t)
}

func TestPaidWrongly(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 2)))
	r := b.mustHold(t, "u", "A-1-1")
	for _, change := range []func(*reservation.Payment){
		func(p *reservation.Payment) { p.Amount-- },
		func(p *reservation.Payment) { p.Currency = "USD" },
	} {
		p := payment(r)
		change(&p)
		b.paid(t, r, p)
		require.Equal(t, reservation.Held, b.find(t, r.ID).Status, "it can still be paid rightly")
		events := b.told(t, r.ID)
		require.Equal(t, "AMOUNT_MISMATCH", events[len(events)-1].Reason)
	}
	unknown := &reservation.Reservation{ID: uuid.New(), EventID: "e", UserID: "u", Amount: 5, Currency: "KRW"}
	p := payment(unknown)
	b.paid(t, unknown, p)
	events := b.told(t, unknown.ID)
	require.Len(t, events, 1)
	require.Equal(t, "RESERVATION_REJECTED", events[0].Type)
	require.Equal(t, "RESERVATION_NOT_FOUND", events[0].Reason)
	require.Equal(t, p.ID.String(), events[0].PaymentID)
	b.requireInvariants(t)
}

func TestRefund(t *testing.T) {
	t.Parallel()
	eachStatus(t, func(at stage) {
		t, b, s, r, p := at.t, at.b, at.status, at.r, at.p
		before := len(b.told(t, r.ID))
		refund := func(p reservation.Payment, cause reservation.Cause) {
			b.settle(t, reservation.PaymentEvent{Key: uuid.NewString(), ReservationID: r.ID, Payment: p, Refunded: true, Cause: cause})
		}
		refund(p, reservation.CauseCompensation)
		refund(p, reservation.CauseTransfer)
		refund(payment(r), reservation.CauseUser)
		require.Equal(t, r, b.find(t, r.ID))
		require.Len(t, b.told(t, r.ID), before)

		refund(p, reservation.CauseUser)
		if s != reservation.Confirmed {
			require.Equal(t, r, b.find(t, r.ID))
			return
		}
		require.Equal(t, reservation.Refunded, b.find(t, r.ID).Status)
		last := b.told(t, r.ID)[before]
		require.Equal(t, []string{"RESERVATION_CANCELLED", "REFUNDED", "REFUNDED"}, []string{last.Type, last.Reason, last.Status})
		require.EqualValues(t, 2, b.count(t, `SELECT count(*) FROM tickets WHERE reservation_id = $1 AND status = 'REFUNDED'`, r.ID))
		seats := r.SeatIDs()
		b.mustHold(t, "next", seats...)
	})
}

// The confirmation was put aside, its payment was given back by hand, and then the confirmation is delivered after all.
func TestAConfirmationOlderThanItsRefund(t *testing.T) {
	t.Parallel()
	for name, deliver := range map[string]func(t *testing.T, b *bundle, events ...reservation.PaymentEvent){
		"together": func(t *testing.T, b *bundle, events ...reservation.PaymentEvent) {
			t.Helper()
			b.settle(t, events...)
		},
		"one by one": func(t *testing.T, b *bundle, events ...reservation.PaymentEvent) {
			t.Helper()
			for _, e := range events {
				b.settle(t, e)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 2)))
			r := b.mustHold(t, "u", "A-1-1")
			p := life[reservation.Paying](t, b, r)
			confirmed := reservation.PaymentEvent{Key: uuid.NewString(), ReservationID: r.ID, Payment: p, Version: 3}
			refunded := confirmed
			refunded.Key, refunded.Version, refunded.Refunded, refunded.Cause = uuid.NewString(), 5, true, reservation.CauseOperator
			deliver(t, b, refunded, confirmed, refunded, confirmed)

			require.Equal(t, reservation.Paying, b.find(t, r.ID).Status, "no ticket for money that was given back")
			require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_REJECTED"}, b.types(t, r.ID))
			last := b.told(t, r.ID)[1]
			require.Equal(t, []string{p.ID.String(), "REFUNDED"}, []string{last.PaymentID, last.Reason}, "what is left of it goes back too")
			b.paid(t, r, payment(r))
			require.Equal(t, reservation.Confirmed, b.find(t, r.ID).Status, "another payment is welcome")
			b.requireInvariants(t)
		})
	}
}

func TestSettleEachEventOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 1, 10)))
	var batch []reservation.PaymentEvent
	for i := range 5 {
		r := b.mustHold(t, fmt.Sprintf("u%d", i), fmt.Sprintf("A-1-%d", 2*i+1), fmt.Sprintf("A-1-%d", 2*i+2))
		e := reservation.PaymentEvent{Key: uuid.NewString(), ReservationID: r.ID, Payment: payment(r)}
		batch = append(batch, e, e)
	}
	gone := batch[0]
	gone.Key, gone.Refunded, gone.Cause = uuid.NewString(), true, reservation.CauseOperator
	batch = append(batch, gone)
	b.settle(t, batch...)
	b.settle(t, batch...)
	b.settle(t, batch[3:]...)

	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CONFIRMED", "RESERVATION_CANCELLED"}, b.types(t, gone.ReservationID))
	require.EqualValues(t, 4, b.count(t, `SELECT count(*) FROM reservations WHERE status = 'CONFIRMED'`))
	require.EqualValues(t, 8, b.count(t, `SELECT count(*) FROM tickets`), "what was paid and given back in one go has no tickets")
	require.EqualValues(t, 6, b.count(t, `SELECT count(*) FROM processed_events`))
	b.requireInvariants(t)
}

func TestCancel(t *testing.T) {
	t.Parallel()
	want := map[reservation.Status]*errs.Error{
		reservation.Paying: reservation.ErrNotHeld, reservation.Confirmed: reservation.ErrNotHeld, reservation.Expired: reservation.ErrHoldExpired,
		reservation.Rejected: reservation.ErrNotHeld, reservation.Refunded: reservation.ErrNotHeld,
	}
	eachStatus(t, func(at stage) {
		t, b, s, r := at.t, at.b, at.status, at.r
		require.ErrorIs(t, b.reservations.Cancel(t.Context(), "someone else", "", r.ID), reservation.ErrNotFound)
		require.ErrorIs(t, b.reservations.Cancel(t.Context(), r.UserID, "other", r.ID), event.ErrWrongEvent)
		before := len(b.told(t, r.ID))
		err := b.reservations.Cancel(t.Context(), r.UserID, "e", r.ID)
		if w, refused := want[s]; refused {
			require.ErrorIs(t, err, w)
			require.Equal(t, r, b.find(t, r.ID))
			return
		}
		require.NoError(t, err)
		require.NoError(t, b.reservations.Cancel(t.Context(), r.UserID, "e", r.ID))
		require.Equal(t, reservation.Cancelled, b.find(t, r.ID).Status)
		if s == reservation.Held {
			require.Len(t, b.told(t, r.ID), before+1, "told once")
			require.Equal(t, "USER", b.told(t, r.ID)[before].Reason)
		}
	})
}
