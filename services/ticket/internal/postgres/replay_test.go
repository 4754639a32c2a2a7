package postgres_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/reservation"
)

// The inbox forgets after a while, and a group that lost its offsets reads its topic from the start: what the events have done once must
// be told by the reservations themselves. Only a rejection may be told again, which payment knows.
func TestEventsThatTheInboxForgotChangeNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.put(t, spec("e", event.Assigned, rows("A", 70, 2, 9)))
	var history []reservation.PaymentEvent
	happens := func(e reservation.PaymentEvent) {
		t.Helper()
		e.Key = uuid.NewString()
		history = append(history, e)
		b.settle(t, e)
	}
	pays := func(r *reservation.Reservation) reservation.Payment {
		t.Helper()
		p := payment(r)
		happens(reservation.PaymentEvent{ReservationID: r.ID, Payment: p, Version: 3})
		return p
	}
	refunds := func(r *reservation.Reservation, p reservation.Payment, cause reservation.Cause) {
		t.Helper()
		happens(reservation.PaymentEvent{ReservationID: r.ID, Payment: p, Version: 5, Refunded: true, Cause: cause})
	}
	confirmed := b.mustHold(t, "confirmed", "A-1-1")
	pays(confirmed)
	twice := b.mustHold(t, "twice", "A-1-2")
	pays(twice)
	refunds(twice, pays(twice), reservation.CauseCompensation)
	returned := b.mustHold(t, "returned", "A-1-3")
	refunds(returned, pays(returned), reservation.CauseUser)
	resold := b.mustHold(t, "resold", "A-1-3")
	pays(resold)
	cheap := b.mustHold(t, "cheap", "A-1-4")
	wrong := payment(cheap)
	wrong.Amount--
	happens(reservation.PaymentEvent{ReservationID: cheap.ID, Payment: wrong, Version: 3})
	refunds(cheap, wrong, reservation.CauseCompensation)
	late := b.mustHold(t, "late", "A-1-5")
	happens(reservation.PaymentEvent{ReservationID: uuid.New(), Payment: payment(late), Version: 3}) // of a reservation that nobody knows
	b.clock.Advance(holdFor)
	refunds(late, pays(late), reservation.CauseCompensation)
	early := b.mustHold(t, "early", "A-1-6")
	p := payment(early)
	refunds(early, p, reservation.CauseUser) // was put aside, and redriven after its refund
	happens(reservation.PaymentEvent{ReservationID: early.ID, Payment: p, Version: 3})
	b.clock.Advance(holdFor)
	_, err := b.store.ExpireDue(t.Context(), 100)
	require.NoError(t, err)

	state := func() map[string]any {
		t.Helper()
		s := map[string]any{}
		for _, r := range []*reservation.Reservation{confirmed, twice, returned, resold, cheap, late, early} {
			now := b.find(t, r.ID)
			s[r.UserID] = []any{now.Status, now.Reason, now.PaymentID}
		}
		s["tickets"] = b.count(t, `SELECT count(*) FROM tickets WHERE status = 'VALID'`)
		s["sold"] = b.count(t, `SELECT count(*) FROM seats WHERE status = 'SOLD'`)
		return s
	}
	b.requireInvariants(t)
	before, events := state(), b.count(t, `SELECT max(id) FROM outbox`)
	b.clock.Advance(365 * 24 * time.Hour)
	_, err = b.pool.Exec(t.Context(), `DELETE FROM processed_events`)
	require.NoError(t, err)
	b.settle(t, history...)
	require.Empty(t, cmp.Diff(before, state()))
	require.Zero(t, b.count(t, `SELECT count(*) FROM outbox WHERE id > $1 AND type <> 'RESERVATION_REJECTED'`, events))
}
