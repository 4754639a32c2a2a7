package cancellations_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

const races = 20

// race cancels the event, begins its refunds and runs the walker, and runs other at the same time.
// Then it runs the walker again, calls check, checks the invariants, and opens the event again.
func race(t *testing.T, svc *storetest.Service, other func() error, check func()) {
	t.Helper()
	replica := svc.Replica(t)
	cancel := func() error {
		for _, a := range []event.Act{event.Cancel, event.Refund} {
			if _, err := replica.Events.Act(t.Context(), "e", a, grace); err != nil {
				return err
			}
		}
		return replica.Walker.Walk(t.Context())
	}
	acts := []func() error{cancel, other}
	for _, err := range storetest.Concurrently(2, func(i int) error { return acts[i]() }) {
		require.NoError(t, err)
	}
	walk(t, svc)
	check()
	svc.RequireInvariants(t)
	_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'OPEN', refund_after = NULL, walk_at = NULL`)
	require.NoError(t, err)
}

// makeDueRefund makes the refund that is due for r. It must be the only one, of the price paid.
func makeDueRefund(t *testing.T, svc *storetest.Service, r *reservation.Reservation) {
	t.Helper()
	due := dueRefunds(t, svc, r.ID)
	require.Len(t, due, 1)
	require.EqualValues(t, 70, due[0].Items[0].Amount)
	svc.Settle(t, made(t, due[0]))
	require.Equal(t, reservation.Refunded, svc.Find(t, r.ID).Status)
}

// A hold during a cancellation is refused, or ended by the cancellation.
func TestCancelDuringAHold(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	for range races {
		var held *reservation.Reservation
		race(t, svc, func() (err error) {
			held, err = svc.HoldSeats(t.Context(), "u", "A-1-1")
			if errs.From(err) != nil && errs.From(err).Reason == event.ErrCancelled.Reason {
				return nil
			}
			return err
		}, func() {
			if held != nil {
				require.Equal(t, reservation.Cancelled, svc.Find(t, held.ID).Status)
			}
			require.EqualValues(t, 9, svc.Count(t, `SELECT count(*) FROM seats WHERE status = 'FREE'`))
		})
	}
	svc.RequireNoDeadlocks(t)
}

// A payment during a cancellation is rejected, or becomes a ticket, which is refunded.
func TestCancelDuringAPayment(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	for range races {
		r := svc.MustHoldSeats(t, "u", "A-1-1")
		p := svc.BeginPayment(t, r)
		paid := settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Reservation, ReferenceID: r.ID, Payment: p}
		race(t, svc, func() error {
			return svc.Settlement.Settle(t.Context(), storetest.Group, []settlement.PaymentEvent{paid})
		}, func() {
			if svc.Find(t, r.ID).Status == reservation.Rejected {
				require.Empty(t, dueRefunds(t, svc, r.ID))
				return
			}
			makeDueRefund(t, svc, r)
		})
	}
	svc.RequireNoDeadlocks(t)
}

// A payment begins before the cancellation, or not at all.
func TestCancelDuringTheBeginOfAPayment(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	for range races {
		r := svc.MustHoldSeats(t, "u", "A-1-1")
		race(t, svc, func() error {
			_, err := svc.Reservations.BeginPayment(t.Context(), "u", r.ID, uuid.New(), purchase.PayTime{})
			if e := errs.From(err); e != nil && e.Kind == errs.Conflict {
				return nil
			}
			return err
		}, func() { require.Equal(t, reservation.Cancelled, svc.Find(t, r.ID).Status) })
	}
	svc.RequireNoDeadlocks(t)
}

// A ticket is claimed once, by its user's refund or by the refund of the cancelled event.
func TestCancelDuringARefund(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	for range races {
		r := svc.MustHoldSeats(t, "u", "A-1-1")
		p := storetest.Payment(r)
		svc.Confirm(t, r, p)
		var c *refund.Claim
		race(t, svc, func() (err error) {
			c, err = svc.Refunds.Begin(t.Context(), svc.RefundRequest(p, refund.User))
			return err
		}, func() {
			if c.Status != refund.Begun {
				makeDueRefund(t, svc, r)
				return
			}
			require.Empty(t, dueRefunds(t, svc, r.ID))
			svc.Settle(t, storetest.MadeRefund(c, p))
			require.Equal(t, ticket.Refunded, status(t, svc, svc.TicketIDs(t, p)[0]))
		})
	}
	svc.RequireNoDeadlocks(t)
}
