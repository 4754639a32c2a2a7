package purchases_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
)

// history applies payment events and records them for a replay.
type history struct {
	t      *testing.T
	svc    *storetest.Service
	events []settlement.PaymentEvent
}

func (h *history) add(e settlement.PaymentEvent) {
	h.t.Helper()
	e.Key = uuid.NewString()
	h.events = append(h.events, e)
	h.svc.Settle(h.t, e)
}

func (h *history) paid(r *reservation.Reservation, p purchase.Payment) {
	h.t.Helper()
	h.add(settlement.PaymentEvent{Type: purchase.Reservation, ReferenceID: r.ID, Payment: p})
}

// pay confirms a new payment of the reservation's amount.
func (h *history) pay(r *reservation.Reservation) purchase.Payment {
	h.t.Helper()
	p := storetest.Payment(r)
	h.paid(r, p)
	return p
}

// compensate applies the event that a rejected payment was refunded.
func (h *history) compensate(r *reservation.Reservation, p purchase.Payment) {
	h.t.Helper()
	h.add(settlement.PaymentEvent{Type: purchase.Reservation, ReferenceID: r.ID, Payment: p, Refunded: true, Cause: refund.Compensation, RefundID: uuid.New()})
}

// refund makes a refund of the first ticket of a payment, or of the whole payment.
func (h *history) refund(p purchase.Payment, cause refund.Cause, whole bool) {
	h.t.Helper()
	req := h.svc.RefundRequest(p, cause)
	if !whole {
		req.TicketIDs = h.svc.TicketIDs(h.t, p)[:1]
	}
	h.add(storetest.MadeRefund(h.svc.BeginRefund(h.t, req), p))
}

// playHistory makes reservations and has payment events end them in all possible ways.
func playHistory(t *testing.T, svc *storetest.Service) (h *history, list []*reservation.Reservation) {
	t.Helper()
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 2, 9)))
	h = &history{t: t, svc: svc}
	hold := func(user string, seats ...string) *reservation.Reservation {
		t.Helper()
		r := svc.MustHoldSeats(t, user, seats...)
		list = append(list, r)
		return r
	}
	h.pay(hold("confirmed", "A-1-1"))
	twice := hold("paid twice", "A-1-2")
	h.pay(twice)
	h.compensate(twice, h.pay(twice))
	h.refund(h.pay(hold("refunded", "A-1-3")), refund.User, true)
	h.pay(hold("sold again", "A-1-3"))
	h.refund(h.pay(hold("refunded in part", "A-2-1", "A-2-2")), refund.Operator, false)
	h.pay(hold("sold again in part", "A-2-1"))
	h.refund(h.pay(hold("refunded by hand", "A-2-3")), refund.ByHand, true)
	late := hold("paid too late", "A-1-5")
	svc.Clock.Advance(storetest.HoldFor)
	h.compensate(late, h.pay(late))
	early := hold("refunded before it was confirmed", "A-1-6") // the confirmation was in the dead-letter topic meanwhile
	p := storetest.Payment(early)
	h.refund(p, refund.ByHand, true)
	h.paid(early, p)
	svc.Clock.Advance(storetest.HoldFor)
	_, err := svc.Expiry.ExpireDue(t.Context(), 100)
	require.NoError(t, err)
	return h, list
}

// The inbox deletes event ids after a while, and a consumer group that lost its offsets reads its
// topic from the start. Such a replay must change nothing. It may only publish rejections again,
// which the payment service recognises.
func TestEventsReplayedAfterInboxPruning(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	h, list := playHistory(t, svc)
	state := func() map[string]any {
		t.Helper()
		s := map[string]any{}
		for _, r := range list {
			found := svc.Find(t, r.ID)
			s[r.UserID] = []any{found.Status, found.Reason, found.PaymentID, found.Released}
		}
		s["tickets"] = svc.Count(t, `SELECT count(*) FROM tickets WHERE status = 'VALID'`)
		s["sold"] = svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'SOLD'`)
		return s
	}
	svc.RequireInvariants(t)
	before, events := state(), svc.Count(t, `SELECT max(id) FROM outbox`)
	svc.Clock.Advance(365 * 24 * time.Hour)
	_, err := svc.Pool.Exec(t.Context(), `DELETE FROM processed_events`)
	require.NoError(t, err)
	svc.Settle(t, h.events...)
	require.Empty(t, cmp.Diff(before, state()))
	require.Zero(t, svc.Count(t, `SELECT count(*) FROM outbox WHERE id > $1 AND type <> 'RESERVATION_REJECTED'`, events))
}
