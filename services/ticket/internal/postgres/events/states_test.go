package events_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

// Every act, in every state, leads to the right state or is refused with the right error.
func TestStatesOfEvents(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10)))
	paths := map[event.State][]event.Act{
		event.Open: {}, event.Paused: {event.Pause}, event.Cancelled: {event.Cancel}, event.Ended: {event.Cancel, event.Refund},
	}
	refused := map[event.Act]map[event.State]error{
		event.Pause:  {event.Cancelled: event.ErrCancelled, event.Ended: event.ErrCancelled},
		event.Resume: {event.Cancelled: event.ErrCancelled, event.Ended: event.ErrCancelled},
		event.Undo:   {event.Ended: event.ErrRefundsBegun},
		event.Refund: {event.Open: event.ErrNotCancelled, event.Paused: event.ErrNotCancelled},
	}
	nextState := map[event.Act]map[event.State]event.State{
		event.Pause:  {event.Open: event.Paused},
		event.Resume: {event.Paused: event.Open},
		event.Cancel: {event.Open: event.Cancelled, event.Paused: event.Cancelled},
		event.Undo:   {event.Cancelled: event.Open},
		event.Refund: {event.Cancelled: event.Ended},
	}
	for from, path := range paths {
		for act := range nextState {
			_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'OPEN', undo_to = NULL, refund_after = NULL, walk_at = NULL`)
			require.NoError(t, err)
			for _, a := range path {
				_, err := svc.Events.Act(t.Context(), "e", a, time.Hour)
				require.NoError(t, err)
			}
			to, changes := nextState[act][from]
			if !changes {
				to = from
			}
			for range 2 { // a repeated act has the same result
				s, err := svc.Events.Act(t.Context(), "e", act, time.Hour)
				if want := refused[act][from]; want != nil {
					require.ErrorIs(t, err, want, "%s when %s", act, from)
					continue
				}
				require.NoError(t, err, "%s when %s", act, from)
				require.Equal(t, to, s.State, "%s when %s", act, from)
				require.Equal(t, !to.TakesPlace(), !s.RefundsAt.IsZero())
			}
		}
	}
	_, err := svc.Events.Act(t.Context(), "nowhere", event.Pause, 0)
	require.ErrorIs(t, err, event.ErrNotFound)
}

// A repeated cancellation does not move the begin of the refunds. Undoing the cancellation restores
// the state before it.
func TestCancelAgain(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10)))
	act := func(a event.Act, grace time.Duration) event.StateAndCounts {
		s, err := svc.Events.Act(t.Context(), "e", a, grace)
		require.NoError(t, err)
		return s
	}
	act(event.Pause, 0)
	first := act(event.Cancel, time.Hour)
	svc.Clock.Advance(time.Minute)
	require.Equal(t, first, act(event.Cancel, time.Minute))
	snap, err := svc.Events.Snapshot(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, event.StatusCancelled, snap.Status(), "visitors are told at once")
	require.Equal(t, first.RefundsAt, snap.Event.RefundsAt)
	require.Equal(t, event.Paused, act(event.Undo, 0).State)
	require.Zero(t, act(event.Undo, 0).RefundsAt)
}

// If undoing a cancellation and beginning its refunds compete, one succeeds and the other fails.
func TestUndoWhileRefundsBegin(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.General, storetest.Admissions("A", 70, 10)))
	for range 20 {
		_, err := svc.Events.Act(t.Context(), "e", event.Cancel, 0)
		require.NoError(t, err)
		acts := []event.Act{event.Undo, event.Refund}
		errs := storetest.Concurrently(2, func(i int) error {
			_, err := svc.Events.Act(t.Context(), "e", acts[i], 0)
			return err
		})
		s, err := svc.EventStore.StateAndCounts(t.Context(), "e")
		require.NoError(t, err)
		if s.State == event.Open {
			require.NoError(t, errs[0])
			require.ErrorIs(t, errs[1], event.ErrNotCancelled)
			continue
		}
		require.Equal(t, event.Ended, s.State)
		require.ErrorIs(t, errs[0], event.ErrRefundsBegun)
		require.NoError(t, errs[1])
		_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET state = 'OPEN', refund_after = NULL, walk_at = NULL`)
		require.NoError(t, err)
	}
}

// A postponement moves the times, opens the sale again, makes used tickets valid again, and cancels
// offers that nobody is paying. For some time users can get price and fee back.
func TestPostpone(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	svc.Put(t, storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	svc.SetFees(t, 5)
	sold := svc.MustHoldSeats(t, "u", "A-1-1", "A-1-2", "A-1-3")
	p := storetest.Payment(sold)
	svc.Confirm(t, sold, p)
	ids := svc.TicketIDs(t, p)
	_, err := svc.Pool.Exec(t.Context(), `UPDATE events SET user_refunds = false, closes_at = starts_at, refund_until = starts_at`)
	require.NoError(t, err)
	_, err = svc.Pool.Exec(t.Context(), `UPDATE tickets SET status = 'USED' WHERE ticket_id = $1`, ids[0])
	require.NoError(t, err)
	_, err = svc.Pool.Exec(t.Context(), `
		INSERT INTO transfers (transfer_id, ticket_id, event_id, seller, claim_hash, price, currency, status, deadline, buyer, pay_until, pay_ends_at,
		                       payment_id, charging, created_at)
		SELECT gen_random_uuid(), o.ticket, 'e', 'u', o.ticket::text::bytea, 70, 'KRW', o.status, now(), 'v',
		       CASE WHEN o.status <> 'OPEN' THEN now() END, CASE WHEN o.status <> 'OPEN' THEN now() END,
		       CASE WHEN o.charging THEN gen_random_uuid() END, o.charging, now()
		FROM (SELECT unnest($1::uuid[]) AS ticket, unnest(ARRAY['OPEN', 'AWAITING_PAYMENT', 'AWAITING_PAYMENT']) AS status,
		             unnest(ARRAY[false, false, true]) AS charging) o`, ids)
	require.NoError(t, err)
	svc.Clock.Set(storetest.Start.Add(49 * time.Hour)) // an hour after its start
	require.Equal(t, refund.Refused, svc.BeginRefund(t, svc.RefundRequest(p, refund.User)).Status)
	start := svc.Clock.Now().Add(30 * 24 * time.Hour).Truncate(time.Microsecond)
	postponement := event.Postponement{StartsAt: start, SalesCloseAt: start.Add(-time.Hour)}
	for range 2 {
		s, err := svc.Events.Postpone(t.Context(), "e", postponement)
		require.NoError(t, err)
		require.Equal(t, event.StateAndCounts{State: event.Open, Orders: 1, Tickets: 3}, s)
		require.EqualValues(t, 2, svc.Count(t, `SELECT epoch FROM events`))
	}
	e, err := svc.EventStore.FindEvent(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, storetest.Start.Add(48*time.Hour), e.PostponedFrom)
	require.Equal(t, start, e.StartsAt)
	svc.RequireFromNow(t, 7*24*time.Hour, e.FeesUntil)
	found, err := svc.Tickets.FindTicket(t.Context(), ids[0])
	require.NoError(t, err)
	require.Equal(t, ticket.Valid, found.Status)
	require.EqualValues(t, 2, svc.Count(t, `SELECT count(*) FROM transfers WHERE status = 'CANCELLED' AND payment_id IS NULL`))
	require.EqualValues(t, 1, svc.Count(t, `SELECT count(*) FROM transfers WHERE status = 'AWAITING_PAYMENT'`))
	_, err = svc.Pool.Exec(t.Context(), `DELETE FROM transfers WHERE charging`) // its ticket was not TRANSFERRING
	require.NoError(t, err)
	_, err = svc.HoldSeats(t.Context(), "w", "A-1-5")
	require.NoError(t, err, "it is on sale again")

	req := svc.RefundRequest(p, refund.User)
	req.TicketIDs = ids[:1]
	c := svc.BeginRefund(t, req)
	require.EqualValues(t, 75, c.Items[0].Amount, "price and fee")
	svc.Settle(t, storetest.MadeRefund(c, p))
	svc.Clock.Set(e.FeesUntil)
	require.Equal(t, refund.Refused, svc.BeginRefund(t, svc.RefundRequest(p, refund.User)).Status, "users may not, as before")
	_, err = svc.Pool.Exec(t.Context(), `UPDATE events SET user_refunds = true, refund_until = NULL`)
	require.NoError(t, err)
	require.EqualValues(t, 70, svc.BeginRefund(t, svc.RefundRequest(p, refund.User)).Items[0].Amount, "the price")
	svc.RequireInvariants(t)
}

// A postponement lets users get fees back for some time. If a PUT then moves the event to an
// earlier time, users can give back no tickets once the event has closed.
func TestFeesEndWhenTheEventCloses(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	svc.Put(t, spec)
	start := svc.Clock.Now().Add(30 * 24 * time.Hour).Truncate(time.Microsecond)
	_, err := svc.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: start})
	require.NoError(t, err)
	spec.StartsAt = svc.Clock.Now().Add(24 * time.Hour).Truncate(time.Microsecond)
	svc.Put(t, spec)
	sold := svc.MustHoldSeats(t, "u", "A-1-1")
	p := storetest.Payment(sold)
	svc.Confirm(t, sold, p)
	closesAt := spec.StartsAt.Add(-time.Hour)
	found, err := svc.Tickets.FindTicket(t.Context(), svc.TicketIDs(t, p)[0])
	require.NoError(t, err)
	require.Equal(t, closesAt, found.Closing.FeesUntil)
	list, err := svc.Tickets.ListTickets(t.Context(), "u", 1, uuid.Nil)
	require.NoError(t, err)
	require.Equal(t, closesAt, list[0].Closing.FeesUntil)
	svc.Clock.Set(closesAt.Add(10 * time.Second))
	require.Equal(t, refund.Refused, svc.BeginRefund(t, svc.RefundRequest(p, refund.User)).Status)
	svc.RequireInvariants(t)
}

// Once a ticket is sold, a PUT cannot move the start. Only a postponement can.
func TestPutDoesNotPostpone(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	svc.Put(t, spec)
	spec.StartsAt = spec.StartsAt.Add(time.Hour)
	svc.Put(t, spec)
	r := svc.MustHoldSeats(t, "u", "A-1-1")
	spec.StartsAt = spec.StartsAt.Add(time.Hour)
	svc.Put(t, spec)
	charged := svc.BeginPayment(t, r)
	spec.StartsAt = spec.StartsAt.Add(time.Hour)
	_, err := svc.Events.Put(t.Context(), "e", spec.Spec, nil)
	require.ErrorIs(t, err, event.ErrUsePostpone, "a buyer is being charged")
	spec.StartsAt = spec.StartsAt.Add(-time.Hour)
	svc.Confirm(t, r, charged)
	spec.Title = "Another"
	svc.Put(t, spec)
	spec.StartsAt = spec.StartsAt.Add(time.Hour)
	_, err = svc.Events.Put(t.Context(), "e", spec.Spec, nil)
	require.ErrorIs(t, err, event.ErrUsePostpone)
}

// A PUT is validated together with the stored times of the event that it leaves out.
func TestPutIsJudgedByWhatItLeavesOut(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	before := func(minutes int) time.Time { return spec.StartsAt.Add(-time.Duration(minutes) * time.Minute) }
	put := func(closesAt, refundUntil int) error {
		spec.ClosesAt, spec.UserRefunds = nil, nil
		if closesAt > 0 {
			spec.ClosesAt = new(before(closesAt))
		}
		if refundUntil > 0 {
			spec.UserRefunds = &event.UserRefunds{Until: before(refundUntil)}
		}
		_, err := svc.Events.Put(t.Context(), "e", spec.Spec, nil)
		return err
	}
	require.ErrorIs(t, put(0, 45), event.ErrInvalid, "by default it closes an hour before the start")
	require.ErrorIs(t, put(30, 15), event.ErrInvalid)
	require.NoError(t, put(30, 0))
	require.NoError(t, put(0, 45))
	require.ErrorIs(t, put(0, 15), event.ErrInvalid)
	require.ErrorIs(t, put(50, 0), event.ErrInvalid)
	require.ErrorIs(t, put(30, 15), event.ErrInvalid)
	require.NoError(t, put(50, 55))
}

// The settings that an event has after a postponement can be put again.
func TestSettingsOfAPostponedEventCanBePut(t *testing.T) {
	t.Parallel()
	svc := storetest.New(t)
	spec := storetest.Spec("e", event.Assigned, storetest.Rows("A", 70, 1, 9))
	until := spec.StartsAt.Add(-2 * time.Hour)
	spec.UserRefunds = &event.UserRefunds{Until: until}
	svc.Put(t, spec)
	for _, step := range []struct {
		start time.Time
		until *event.UserRefunds
	}{{spec.StartsAt.Add(24 * time.Hour), spec.UserRefunds}, {spec.StartsAt.Add(-time.Hour), spec.UserRefunds}, {spec.StartsAt.Add(-90 * time.Minute), nil}} {
		_, err := svc.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: step.start})
		require.NoError(t, err)
		e, err := svc.EventStore.Settings(t.Context(), "e")
		require.NoError(t, err)
		require.Equal(t, step.until, e.UserRefunds)
		e.Title = "Another " + step.start.String()
		_, err = svc.Events.Put(t.Context(), "e", e.Spec, nil)
		require.NoError(t, err)
	}
}
