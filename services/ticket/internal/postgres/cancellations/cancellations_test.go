package cancellations_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/cancellation"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/cancellations"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/reservation"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
)

const grace = 5 * time.Minute

func act(t *testing.T, svc *storetest.Service, a event.Act) event.StateAndCounts {
	t.Helper()
	s, err := svc.Events.Act(t.Context(), "e", a, grace)
	require.NoError(t, err)
	return s
}

// walk advances the clock by a minute and has the walker refund the cancelled events.
func walk(t *testing.T, svc *storetest.Service) {
	t.Helper()
	svc.Clock.Advance(time.Minute)
	require.NoError(t, svc.Walker.Walk(t.Context()))
}

func status(t *testing.T, svc *storetest.Service, id uuid.UUID) ticket.Status {
	t.Helper()
	found, err := svc.Tickets.FindTicket(t.Context(), id)
	require.NoError(t, err)
	return found.Status
}

// dueRefunds returns the Kafka events that ask the payment service to refund a reservation.
func dueRefunds(t *testing.T, svc *storetest.Service, id uuid.UUID) (due []storetest.OutboxEvent) {
	t.Helper()
	for _, e := range svc.OutboxEvents(t, id) {
		if e.Type == "TICKETS_REFUND_DUE" {
			require.Equal(t, "EVENT_CANCELLED", e.Cause)
			due = append(due, e)
		}
	}
	return due
}

// made returns the Kafka event that the payment service has made a due refund.
func made(t *testing.T, due storetest.OutboxEvent) settlement.PaymentEvent {
	t.Helper()
	return settlement.PaymentEvent{
		Key: uuid.NewString(), Payment: purchase.Payment{ID: uuid.MustParse(due.PaymentID)}, Refunded: true, Cause: refund.EventCancelled,
		RefundID: uuid.MustParse(due.ClaimID),
	}
}

// Each subtest ends an event that has a ticket in one status and a VALID one of the same payment.
func TestEndOfEveryTicketStatus(t *testing.T) {
	t.Parallel()
	storetest.ForEachTicketStatus(t, func(t *testing.T, in storetest.TicketInStatus) {
		t.Helper()
		store := cancellations.NewStore(in.Database)
		setState := func(state string) {
			_, err := in.Pool.Exec(t.Context(), `UPDATE events SET state = $1`, state)
			require.NoError(t, err)
		}
		setState("ENDED")
		defer setState("OPEN")
		orders, _, err := store.Orders(t.Context(), cancellation.Position{EventID: "e"}, 100)
		require.NoError(t, err)
		require.Len(t, orders, 1, "those of other statuses are ended")
		require.Equal(t, in.Reservation.ID, orders[0].ReservationID)
		require.NoError(t, store.Refund(t.Context(), orders[0]))
		require.NoError(t, store.Refund(t.Context(), orders[0]), "again")

		statusAfter := map[ticket.Status]ticket.Status{ticket.Valid: ticket.Refunding, ticket.Used: ticket.Refunding}
		wantStatus := in.Status
		items := 1
		if after, ends := statusAfter[in.Status]; ends {
			wantStatus, items = after, 2
		}
		if in.Status == ticket.Transferred || in.Status == ticket.Voided { // nothing was given back to its holder
			items = 2
		}
		require.Equal(t, wantStatus, status(t, in.Service, in.Ticket.ID))
		require.Equal(t, ticket.Refunding, status(t, in.Service, in.Other))
		due := dueRefunds(t, in.Service, in.Reservation.ID)
		require.Len(t, due, 1)
		require.Equal(t, in.Payment.ID.String(), due[0].PaymentID)
		require.Len(t, due[0].Items, items)
		for _, item := range due[0].Items {
			require.EqualValues(t, 75, item.Amount, "price and fee")
		}
		if in.Status == ticket.Transferred { // the transfer was free, so its receiver gets no refund
			require.Equal(t, 1, in.Find(t, in.Reservation.ID).Released)
			require.EqualValues(t, 1, in.Count(t, `SELECT count(*) FROM tickets WHERE prev = $1 AND status = 'REFUNDED'`, in.Ticket.ID))
		}
		in.Settle(t, made(t, due[0]))
		require.Equal(t, ticket.Refunded, status(t, in.Service, in.Other))
		orders, _, err = store.Orders(t.Context(), cancellation.Position{EventID: "e"}, 100)
		require.NoError(t, err)
		require.Empty(t, orders)
	})
}

// Undoing a cancellation within the grace period restores everything. A payment that had begun
// before the cancellation has become a ticket.
func TestUndoKeepsEverything(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	spec.HoldSeconds = new(int32(3600))
	svc.Put(t, spec)
	for _, state := range []event.State{event.Open, event.Paused} {
		sold := svc.MustHoldSeats(t, "a"+string(state), "A-1-1")
		p := storetest.Payment(sold)
		svc.Confirm(t, sold, p)
		charged := svc.MustHoldSeats(t, "b"+string(state), "A-1-3")
		charge := svc.BeginPayment(t, charged)
		held := svc.MustHoldSeats(t, "c"+string(state), "A-1-5")
		if state == event.Paused {
			act(t, svc, event.Pause)
		}
		otherReplica := svc.Replica(t)
		_, err := otherReplica.Events.Event(t.Context(), "e")
		require.NoError(t, err)
		cancelled := act(t, svc, event.Cancel)
		require.Equal(t, event.Cancelled, cancelled.State)
		svc.RequireFromNow(t, grace, cancelled.RefundsAt)

		_, err = otherReplica.Reservations.BeginPayment(t.Context(), held.UserID, held.ID, uuid.New(), purchase.PayTime{})
		require.ErrorIs(t, err, event.ErrCancelled, "although the replica has read the event before")
		_, err = svc.HoldSeats(t.Context(), "d", "A-1-7")
		require.ErrorIs(t, err, event.ErrCancelled)
		require.Equal(t, refund.Refused, svc.BeginRefund(t, svc.RefundRequest(p, refund.User)).Status)
		svc.Confirm(t, charged, charge)
		for range 4 {
			walk(t, svc)
		}
		svc.RequireInvariants(t)
		require.Equal(t, state, act(t, svc, event.Undo).State)
		walk(t, svc)
		walk(t, svc)
		for _, payment := range []purchase.Payment{p, charge} {
			require.Equal(t, ticket.Valid, status(t, svc, svc.TicketIDs(t, payment)[0]))
		}
		require.Equal(t, reservation.Held, svc.Find(t, held.ID).Status)
		if state == event.Open {
			svc.Refund(t, p, refund.User)
			svc.Refund(t, charge, refund.User)
			require.NoError(t, svc.Reservations.Cancel(t.Context(), held.UserID, "", held.ID))
		}
	}
	svc.RequireInvariants(t)
}

// After the grace period, holds are freed, later payments are rejected, and all tickets are
// refunded in full. If an earlier refund of a ticket is aborted, the ticket is refunded again.
func TestEndAfterTheGrace(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 100)))
	buy := func(user string, n int) (*reservation.Reservation, purchase.Payment) {
		r, err := svc.HoldBest(t.Context(), user, n)
		require.NoError(t, err)
		p := storetest.Payment(r)
		svc.Confirm(t, r, p)
		return r, p
	}
	sold, _ := buy("a", 2)
	_, otherPayment := buy("b", 1)
	earlyClaim := svc.BeginRefund(t, svc.RefundRequest(otherPayment, refund.User))
	held, err := svc.HoldBest(t.Context(), "c", 3)
	require.NoError(t, err)
	charged, err := svc.HoldBest(t.Context(), "d", 1)
	require.NoError(t, err)
	charge := svc.BeginPayment(t, charged)

	act(t, svc, event.Cancel)
	svc.Clock.Advance(grace)
	walk(t, svc)
	require.Equal(t, event.StateAndCounts{
		State: event.Ended, RefundsAt: refundsBegan(t, svc), Orders: 2, Refunds: 2,
	}, act(t, svc, event.Cancel), "of the two refunds one began before")
	require.Equal(t, reservation.Expired, svc.Find(t, held.ID).Status, "its time was over")
	require.Equal(t, reservation.Cancelled, svc.Find(t, charged.ID).Status)
	require.ErrorIs(t, errorOf(svc.Events.Act(t.Context(), "e", event.Undo, 0)), event.ErrRefundsBegun)
	svc.Confirm(t, charged, charge)
	require.Equal(t, []string{"RESERVATION_CREATED", "RESERVATION_CANCELLED", "RESERVATION_REJECTED"}, svc.EventTypes(t, charged.ID))

	due := dueRefunds(t, svc, sold.ID)
	require.Len(t, due, 1)
	require.Len(t, due[0].Items, 2)
	svc.Settle(t, made(t, due[0]))
	require.Equal(t, reservation.Refunded, svc.Find(t, sold.ID).Status)
	require.NoError(t, svc.Refunds.Abort(t.Context(), earlyClaim.ID))
	require.Equal(t, ticket.Valid, status(t, svc, svc.TicketIDs(t, otherPayment)[0]))
	walk(t, svc)
	require.Equal(t, ticket.Refunding, status(t, svc, svc.TicketIDs(t, otherPayment)[0]))
	remaining, err := svc.Walker.Store.CountRemaining(t.Context())
	require.NoError(t, err)
	require.Equal(t, cancellation.Remaining{Orders: 1}, remaining)
	var owed []storetest.OutboxEvent
	for _, id := range svc.TicketIDs(t, otherPayment) {
		found, err := svc.Tickets.FindTicket(t.Context(), id)
		require.NoError(t, err)
		owed = append(owed, dueRefunds(t, svc, found.ReservationID)...)
	}
	svc.Settle(t, made(t, owed[0]))
	require.Equal(t, event.StateAndCounts{State: event.Ended, RefundsAt: refundsBegan(t, svc)}, act(t, svc, event.Refund))
	svc.RequireInvariants(t)
}

func errorOf(_ event.StateAndCounts, err error) error { return err }

// refundsBegan returns the time at which the refunds of the event began.
func refundsBegan(t *testing.T, svc *storetest.Service) (at time.Time) {
	t.Helper()
	require.NoError(t, svc.Pool.QueryRow(t.Context(), `SELECT refund_after FROM events`).Scan(&at))
	return at.UTC()
}

// Replicas take turns, by a lease, in refunding the tickets of an ended event (a walk). Even if no
// ticket is left to refund, the event is read again at least every hour, forever.
func TestWalksAreShared(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	otherReplica := svc.Replica(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 1000)))
	for i := range 60 {
		r, err := svc.HoldBest(t.Context(), "u"+string(rune('A'+i)), 2)
		require.NoError(t, err)
		svc.Confirm(t, r, storetest.Payment(r))
	}
	act(t, svc, event.Cancel)
	act(t, svc, event.Refund)
	claims := func() int64 { return svc.Count(t, `SELECT count(*) FROM refund_claims`) }
	require.NoError(t, svc.Walker.Walk(t.Context()))
	require.EqualValues(t, 49, claims(), "one batch, without the order that it may have cut")
	require.NoError(t, otherReplica.Walker.Walk(t.Context()))
	require.EqualValues(t, 49, claims(), "within the same second")
	svc.Clock.Advance(time.Second)
	require.NoError(t, otherReplica.Walker.Walk(t.Context()))
	require.EqualValues(t, 60, claims())
	svc.Clock.Advance(time.Second)
	require.NoError(t, svc.Walker.Walk(t.Context()))

	read := svc.Statements.Sent("OwedTickets")
	require.NoError(t, svc.Walker.Walk(t.Context()))
	require.Equal(t, read, svc.Statements.Sent("OwedTickets"), "nothing is left")
	svc.Clock.Advance(24 * time.Hour)
	require.NoError(t, svc.Walker.Walk(t.Context()))
	require.Equal(t, read+1, svc.Statements.Sent("OwedTickets"))
	svc.Clock.Advance(time.Hour)
	require.NoError(t, otherReplica.Walker.Walk(t.Context()))
	require.Equal(t, read+2, svc.Statements.Sent("OwedTickets"), "at least hourly")
	svc.RequireInvariants(t)
}

// A walk continues where the previous one ended. Only after all other tickets does it read again
// the tickets that are refunded or cannot be refunded.
func TestWalksGoOn(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 1000)))
	for i := range 60 {
		r, err := svc.HoldBest(t.Context(), "u"+string(rune('A'+i)), 2)
		require.NoError(t, err)
		svc.Confirm(t, r, storetest.Payment(r))
	}
	for _, sql := range []string{ // the first 50 need no refund, and their places cannot be given back
		`UPDATE tickets SET paid = 0, fee = 0 WHERE user_id < 'u' || chr(65 + 50)`, `UPDATE sections SET sold = 0`,
	} {
		_, err := svc.Pool.Exec(t.Context(), sql)
		require.NoError(t, err)
	}
	act(t, svc, event.Cancel)
	act(t, svc, event.Refund)
	claims := func() int64 { return svc.Count(t, `SELECT count(*) FROM refund_claims`) }
	require.Error(t, svc.Walker.Walk(t.Context()))
	require.Zero(t, claims())
	svc.Clock.Advance(time.Second)
	require.Error(t, svc.Replica(t).Walker.Walk(t.Context()))
	require.EqualValues(t, 10, claims(), "of those after them")
	require.Equal(t, 1, svc.Statements.Sent("HoldsOf"), "unpaid ones end at the beginning")
	svc.Clock.Advance(time.Second)
	require.Error(t, svc.Walker.Walk(t.Context()), "from the beginning")
	require.Equal(t, 2, svc.Statements.Sent("HoldsOf"))
}

// A reservation whose rows contradict each other does not stop the refunds of all others.
func TestAContradictionStopsNoOther(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	bad, held := svc.MustHoldSeats(t, "u", "A-1-1"), svc.MustHoldSeats(t, "v", "A-1-3")
	sold := svc.MustHoldSeats(t, "w", "A-1-5")
	svc.Confirm(t, sold, storetest.Payment(sold))
	_, err := svc.Pool.Exec(t.Context(), `UPDATE seats SET status = 'FREE', reservation_id = NULL, held_until = NULL WHERE seat_id = 'A-1-1'`)
	require.NoError(t, err)
	act(t, svc, event.Cancel)
	act(t, svc, event.Refund)
	require.ErrorContains(t, svc.Walker.Walk(t.Context()), bad.ID.String())
	require.Equal(t, reservation.Cancelled, svc.Find(t, held.ID).Status)
	require.Len(t, dueRefunds(t, svc, sold.ID), 1)
}
