package scans_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/ticket"
)

func TestCheckInOnce(t *testing.T) {
	t.Parallel()
	h := open(t)
	b := h.buy(t, "u", "A-1-1")
	o := h.mustCheckIn(t, b.code)
	require.Equal(t, ticket.Used, h.find(t, b.id).Status)
	require.Equal(t, "A-1-1", o.Ticket.Seat.ID)
	require.Equal(t, checkin.Counts{Sold: 1, CheckedIn: 1}, h.counts(t))

	h.Clock.Advance(time.Minute)
	_, err := h.checkIn(t.Context(), b.code)
	require.ErrorIs(t, err, checkin.ErrAlreadyUsed)
	require.Equal(t, map[string]string{
		"usedAt": o.Scan.At.Format(time.RFC3339), "deviceId": "gate-1", "seatId": "A-1-1",
	}, errs.From(err).Metadata, "when, where, and which seat")
	require.EqualValues(t, 1, h.Count(t, `SELECT count(*) FROM scans`), "a refusal admits nobody")

	_, err = h.doors.CheckIn(t.Context(), checkin.Batch{EventID: "none"}, b.code)
	require.ErrorIs(t, err, event.ErrNotFound)
	_, err = h.doors.Counts(t.Context(), "none")
	require.ErrorIs(t, err, event.ErrNotFound)
}

// Only a VALID ticket admits its bearer, both at an online door and in an upload.
func TestCheckInOfEveryTicketStatus(t *testing.T) {
	t.Parallel()
	storetest.ForEachTicketStatus(t, func(t *testing.T, in storetest.TicketInStatus) {
		t.Helper()
		want := map[ticket.Status]checkin.Result{ticket.Valid: checkin.Admitted, ticket.Used: checkin.AlreadyUsed}[in.Status]
		if want == "" {
			want = checkin.Result(in.Status)
		}
		door := gate
		for _, epoch := range []int{0, 1} {
			door.Epoch = epoch
			door.Reads = []checkin.ReadCode{{ScanID: uuid.New(), At: in.Clock.Now(), Code: &ticket.Code{TicketID: in.Ticket.ID, Serial: 1, EventID: "e"}}}
			list, err := in.Scans.Record(t.Context(), door)
			require.NoError(t, err)
			require.Equal(t, want, list[0].Scan.Result)
			got, err := in.Tickets.FindTicket(t.Context(), in.Ticket.ID)
			require.NoError(t, err)
			if in.Status == ticket.Valid {
				in.Ticket.Status, want = ticket.Used, checkin.AlreadyUsed
			}
			require.Equal(t, in.Ticket, got.Ticket)
		}
	})
}

func TestCodesThatAdmitNobody(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.Put(t, storetest.Spec("other", event.Assigned, storetest.Rows("A", 70, 1, 9)))
	b := h.buy(t, "u", "A-1-1")
	_, err := h.checkIn(t.Context(), b.code+"A")
	requireWhy(t, checkin.UnknownCode, err)
	_, err = h.checkIn(t.Context(), h.keys.Sign(ticket.Code{TicketID: uuid.New(), Serial: 1, EventID: "e", Place: "A-1-1"}))
	requireWhy(t, checkin.UnknownCode, err)
	elsewhere := gate
	elsewhere.EventID = "other"
	_, err = h.doors.CheckIn(t.Context(), elsewhere, b.code)
	requireWhy(t, checkin.WrongEvent, err)

	h.exec(t, `UPDATE tickets SET serial = 2`)
	_, err = h.checkIn(t.Context(), b.code)
	requireWhy(t, checkin.OldCode, err)
	b.code = h.code(t, b.id)

	for _, state := range []event.State{event.Cancelled, event.Ended} {
		h.exec(t, `UPDATE events SET state = $1 WHERE event_id = 'e'`, string(state))
		_, err = h.checkIn(t.Context(), b.code)
		requireWhy(t, checkin.EventCancelled, err)
	}
	h.exec(t, `UPDATE events SET state = 'OPEN', epoch = 2 WHERE event_id = 'e'`)
	_, err = h.checkIn(t.Context(), b.code)
	requireWhy(t, checkin.EventPostponed, err)
	h.close(0)
	h.mustCheckIn(t, b.code)
	h.RequireInvariants(t)
}

func TestUndo(t *testing.T) {
	t.Parallel()
	h := open(t)
	b := h.buy(t, "u", "A-1-1")
	first := h.mustCheckIn(t, b.code)
	for range 2 {
		o, err := h.doors.Undo(t.Context(), "e", first.Scan.ID)
		require.NoError(t, err)
		require.Equal(t, checkin.Undone, o.Scan.Result)
		require.Equal(t, ticket.Valid, h.find(t, b.id).Status)
	}
	require.Equal(t, checkin.Counts{Sold: 1}, h.counts(t))

	second := h.mustCheckIn(t, b.code)
	_, err := h.doors.Undo(t.Context(), "e", first.Scan.ID)
	require.NoError(t, err)
	require.Equal(t, ticket.Used, h.find(t, b.id).Status, "by the second scan, whatever becomes of the first")

	h.Clock.Advance(checkin.UndoWithin + time.Second)
	_, err = h.doors.Undo(t.Context(), "e", second.Scan.ID)
	require.ErrorIs(t, err, checkin.ErrUndoTooLate)
	_, err = h.doors.Undo(t.Context(), "e", uuid.New())
	require.ErrorIs(t, err, checkin.ErrScanNotFound)

	c := h.buy(t, "v", "A-1-2")
	postponed := h.mustCheckIn(t, c.code)
	h.exec(t, `UPDATE events SET epoch = 2`)
	h.exec(t, `UPDATE tickets SET status = 'VALID'`)
	_, err = h.doors.Undo(t.Context(), "e", postponed.Scan.ID)
	requireWhy(t, checkin.EventPostponed, err)
	require.Equal(t, checkin.Counts{Sold: 2}, h.counts(t), "of the new date")
	h.close(0)
	h.mustCheckIn(t, c.code)
	h.RequireInvariants(t)
}

func TestUploads(t *testing.T) {
	t.Parallel()
	h := open(t)
	a, b, c := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2"), h.buy(t, "w", "A-1-3")
	h.mustCheckIn(t, b.code)
	h.Refund(t, c.payment, refund.Operator)
	scans := []checkin.Scanned{h.offline(a.code), h.offline(a.code), h.offline(b.code), h.offline(c.code), h.offline("forged")}
	want := []checkin.Result{
		checkin.Admitted, checkin.AlreadyUsed, checkin.AlreadyUsed, checkin.Result(ticket.Refunded), checkin.UnknownCode,
	}
	for range 2 {
		require.Equal(t, want, h.upload(t, 1, scans...), "a repeated upload gets the first results")
	}
	require.Equal(t, ticket.Used, h.find(t, a.id).Status)
	require.Equal(t, checkin.Counts{Sold: 2, CheckedIn: 2, Conflicts: 4}, h.counts(t))
	repeated := []checkin.Scanned{scans[0], scans[0]}
	require.Equal(t, []checkin.Result{checkin.Admitted, checkin.Admitted}, h.upload(t, 1, repeated...), "one scan")

	list, next, err := h.doors.Conflicts(t.Context(), "e", 3, 0)
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, checkin.UnknownCode, list[0].Result, "the latest first")
	require.Equal(t, uuid.Nil, list[0].TicketID)
	secondPage, next, err := h.doors.Conflicts(t.Context(), "e", 3, next)
	require.NoError(t, err)
	require.Zero(t, next)
	require.Len(t, secondPage, 1)
	require.Equal(t, a.id, secondPage[0].TicketID)
	require.Equal(t, "gate-2", secondPage[0].Device)
	require.Equal(t, "staff", secondPage[0].UserID)

	_, err = h.doors.Undo(t.Context(), "e", scans[1].ScanID)
	require.ErrorIs(t, err, checkin.ErrScanNotFound, "a conflict has changed nothing")
	_, err = h.doors.Undo(t.Context(), "e", scans[0].ScanID)
	require.NoError(t, err)
	require.Equal(t, []checkin.Result{checkin.Undone}, h.upload(t, 1, scans[0]), "it is not admitted again")
	h.RequireInvariants(t)
}

// While a cancellation can be undone, uploads admit, since the offline door did not know of it.
func TestUploadsWhileACancellationCanBeUndone(t *testing.T) {
	t.Parallel()
	h := open(t)
	a, b := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2")
	act := func(act event.Act) {
		t.Helper()
		_, err := h.Events.Act(t.Context(), "e", act, time.Hour)
		require.NoError(t, err)
	}
	scan := h.offline(a.code)
	act(event.Cancel)
	require.Equal(t, []checkin.Result{checkin.Admitted}, h.upload(t, 1, scan))
	_, err := h.checkIn(t.Context(), b.code)
	requireWhy(t, checkin.EventCancelled, err)
	act(event.Undo)
	require.Equal(t, []checkin.Result{checkin.Admitted}, h.upload(t, 1, scan))
	_, err = h.checkIn(t.Context(), a.code)
	require.ErrorIs(t, err, checkin.ErrAlreadyUsed, "whoever came in is in")
	require.Equal(t, checkin.Counts{Sold: 2, CheckedIn: 1}, h.counts(t))

	act(event.Cancel)
	act(event.Refund)
	require.Equal(t, []checkin.Result{checkin.EventCancelled}, h.upload(t, 1, h.offline(b.code)))
	require.NoError(t, h.Walker.Walk(t.Context()))
	require.Equal(t, ticket.Refunding, h.find(t, a.id).Status, "everybody gets everything back")
	h.RequireInvariants(t)
}

// Tickets that were used on the old date are valid on the new date. The postponement writes no
// tickets, since a large event could not be postponed otherwise.
func TestUsedTicketsOfAPostponedEvent(t *testing.T) {
	t.Parallel()
	h := open(t)
	a, b, c := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2"), h.buy(t, "w", "A-1-3")
	h.close(checkin.ListAfter)
	first := h.mustCheckIn(t, a.code)
	h.mustCheckIn(t, b.code)
	rows := func() int64 {
		return h.Count(t, `SELECT count(DISTINCT xmin::text || cmin::text) FROM tickets WHERE status = 'USED'`)
	}
	written := rows()
	for range 2 { // the event is postponed twice
		start := h.Clock.Now().Add(48 * time.Hour).Truncate(time.Second)
		_, err := h.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: start})
		require.NoError(t, err)
		h.Clock.Set(start.Add(-time.Hour + checkin.ListAfter))
	}
	require.Equal(t, written, rows(), "no ticket is written")
	for _, purchase := range []bought{a, b, c} {
		require.Equal(t, ticket.Valid, h.find(t, purchase.id).Status)
		list, err := h.Tickets.ListTickets(t.Context(), h.find(t, purchase.id).UserID, 1, uuid.Nil)
		require.NoError(t, err)
		require.Equal(t, ticket.Valid, list[0].Status)
	}
	require.Len(t, h.pages(t, 0)[0].Tickets, 3)
	require.Equal(t, checkin.Counts{Sold: 3}, h.counts(t))
	_, err := h.doors.Undo(t.Context(), "e", first.Scan.ID)
	requireWhy(t, checkin.EventPostponed, err)
	require.Equal(t, []checkin.Result{checkin.EventPostponed}, h.upload(t, 1, h.offline(a.code)))

	require.Equal(t, refund.Begun, h.Refund(t, b.payment, refund.Operator).Status)
	again := h.mustCheckIn(t, a.code)
	require.Equal(t, ticket.Used, h.find(t, a.id).Status)
	require.Len(t, h.pages(t, 0)[0].Tickets, 1)
	_, err = h.checkIn(t.Context(), a.code)
	require.ErrorIs(t, err, checkin.ErrAlreadyUsed)
	require.Equal(t, again.Scan.At.Format(time.RFC3339), errs.From(err).Metadata["usedAt"])
	require.Equal(t, refund.Refused, h.BeginRefund(t, h.RefundRequest(a.payment, refund.Operator)).Status)
	_, err = h.doors.Undo(t.Context(), "e", again.Scan.ID)
	require.NoError(t, err)
	require.Equal(t, ticket.Valid, h.find(t, a.id).Status)
	require.Equal(t, []checkin.Result{checkin.Admitted}, h.upload(t, 3, h.offline(a.code)))
	require.Equal(t, checkin.Counts{Sold: 2, CheckedIn: 1, Conflicts: 1}, h.counts(t))
	h.RequireInvariants(t)
}

// If the start is delayed by some hours while doors are open, nothing changes at the doors.
func TestDelayOnTheEvening(t *testing.T) {
	t.Parallel()
	h := open(t)
	a, b, c := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2"), h.buy(t, "w", "A-1-3")
	h.close(checkin.ListAfter)
	h.mustCheckIn(t, a.code)
	for range 2 {
		_, err := h.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: storetest.Start.Add(51 * time.Hour)})
		require.NoError(t, err)
	}
	_, err := h.checkIn(t.Context(), a.code)
	require.ErrorIs(t, err, checkin.ErrAlreadyUsed)
	h.mustCheckIn(t, b.code)
	require.Len(t, h.pages(t, 0)[0].Tickets, 1)
	require.Equal(t, refund.Refused, h.BeginRefund(t, h.RefundRequest(c.payment, refund.User)).Status, "doors have it on their lists")
	require.Equal(t, []checkin.Result{checkin.Admitted}, h.upload(t, 1, h.offline(c.code)))
	e, err := h.EventStore.FindEvent(t.Context(), "e")
	require.NoError(t, err)
	require.Equal(t, storetest.Start.Add(48*time.Hour), e.PostponedFrom)
	require.Equal(t, storetest.Start.Add(51*time.Hour), e.StartsAt)
	_, err = h.Events.Put(t.Context(), "e", e.Spec, nil)
	require.NoError(t, err)

	_, err = h.Events.Postpone(t.Context(), "e", event.Postponement{StartsAt: storetest.Start.Add(58 * time.Hour)})
	require.NoError(t, err)
	_, err = h.checkIn(t.Context(), a.code)
	requireWhy(t, checkin.EventPostponed, err)
	h.RequireInvariants(t)
}

// A door's offline list is void once its event is postponed, or has ended by a cancellation.
func TestUploadsOfVoidLists(t *testing.T) {
	t.Parallel()
	h := open(t)
	b := h.buy(t, "u", "A-1-1")
	h.exec(t, `UPDATE events SET epoch = 2`)
	require.Equal(t, []checkin.Result{checkin.EventPostponed}, h.upload(t, 1, h.offline(b.code)))
	require.Equal(t, []checkin.Result{checkin.Admitted}, h.upload(t, 2, h.offline(b.code)))
	h.exec(t, `UPDATE events SET state = 'ENDED'`)
	require.Equal(t, []checkin.Result{checkin.EventCancelled}, h.upload(t, 2, h.offline(b.code)))
	require.Equal(t, checkin.Counts{Sold: 1, CheckedIn: 1, Conflicts: 2}, h.counts(t))
}
