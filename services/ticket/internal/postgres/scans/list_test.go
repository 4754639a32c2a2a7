package scans_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/checkin"
	"urr.guru/services/ticket/internal/event"
	"urr.guru/services/ticket/internal/postgres/storetest"
	"urr.guru/services/ticket/internal/purchase"
	"urr.guru/services/ticket/internal/refund"
	"urr.guru/services/ticket/internal/settlement"
	"urr.guru/services/ticket/internal/ticket"
	"urr.guru/services/ticket/internal/transfer"
)

// pages reads all pages of a list and verifies them as a door does.
func (h *hall) pages(t *testing.T, limit int) (pages []*ticket.DoorList) {
	t.Helper()
	for position := (*checkin.Position)(nil); ; {
		p, err := h.doors.List(t.Context(), "e", position, limit)
		require.NoError(t, err)
		l, err := h.keys.VerifyDoorList(p.Signed)
		require.NoError(t, err)
		require.Len(t, l.Tickets, p.Count)
		require.Equal(t, len(pages), l.Page)
		require.Equal(t, p.Next == nil, l.Last)
		require.Equal(t, "e", l.EventID)
		pages = append(pages, l)
		require.Equal(t, pages[0].Time, l.Time, "one list")
		if position = p.Next; position == nil {
			return pages
		}
	}
}

// sellMany issues n valid tickets to a third as many users.
func (h *hall) sellMany(t *testing.T, n int) {
	t.Helper()
	h.exec(t, `INSERT INTO reservations (reservation_id, event_id, user_id, slot_id, section, quantity, amount, currency, status, expires_at,
			hold_ends_at, payment_id)
		VALUES (gen_random_uuid(), 'e', 'many', 's', 'A', $1, 0, 'KRW', 'CONFIRMED', now(), now(), gen_random_uuid())`, n)
	h.exec(t, `INSERT INTO places (reservation_id, n, event_id, section, price)
		SELECT reservation_id, generate_series(1, $1::int), 'e', 'A', 0 FROM reservations WHERE user_id = 'many'`, n)
	h.exec(t, `INSERT INTO tickets (ticket_id, reservation_id, n, event_id, user_id, section, price, paid, fee, currency, payment_id, status)
		SELECT gen_random_uuid(), p.reservation_id, p.n, 'e', 'u' || p.n % ($1::int / 3), 'A', 0, 0, 0, 'KRW', r.payment_id, 'VALID'
		FROM places p JOIN reservations r USING (reservation_id) WHERE r.user_id = 'many'`, n)
	h.exec(t, `ANALYZE tickets`)
}

func TestListHasEveryTicketOnce(t *testing.T) {
	t.Parallel()
	h := open(t, storetest.Rows("A", 70, 1, 9))
	h.sellMany(t, 1000)
	used := h.buy(t, "u", "A-1-1")
	h.mustCheckIn(t, used.code)
	h.Refund(t, h.buy(t, "v", "A-1-2").payment, refund.Operator)
	h.close(checkin.ListAfter + time.Second)
	rows, err := h.Pool.Query(t.Context(), `SELECT ticket_id FROM tickets WHERE status = 'VALID'`)
	require.NoError(t, err)
	valid, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	require.NoError(t, err)
	for _, limit := range []int{0, 70, 100, 1001} {
		var listed []uuid.UUID
		for _, l := range h.pages(t, limit) {
			require.Equal(t, 1, l.Epoch)
			for _, tk := range l.Tickets {
				require.Equal(t, 1, tk.Serial)
				listed = append(listed, tk.ID)
			}
		}
		require.ElementsMatch(t, valid, listed, "pages of %d", limit)
	}
}

// A ticket that the organiser gives away has no holder until somebody claims it. A door list
// contains it even if it is claimed while the pages of the list are read.
func TestTicketsThatGetAHolderMeanwhile(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.sellMany(t, 30)
	h.exec(t, `UPDATE tickets SET user_id = '' WHERE n <= 15`)
	h.close(checkin.ListAfter + time.Second)
	listed := map[uuid.UUID]bool{}
	for position := (*checkin.Position)(nil); ; {
		p, err := h.doors.List(t.Context(), "e", position, 5)
		require.NoError(t, err)
		l, err := h.keys.VerifyDoorList(p.Signed)
		require.NoError(t, err)
		for _, tk := range l.Tickets {
			listed[tk.ID] = true
		}
		if position = p.Next; position == nil {
			break
		}
		h.exec(t, `UPDATE tickets SET user_id = 'u' || n WHERE ticket_id = $1 AND user_id = ''`, position.TicketID)
	}
	require.Len(t, listed, 30)
}

// A ticket that is sold after a door list was read has an id later than the time of the list.
func TestTimeOfAList(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.close(checkin.ListAfter + time.Minute)
	l := h.pages(t, 0)[0]
	require.WithinDuration(t, h.Clock.Now().Add(-10*time.Second), l.Time, 2*time.Millisecond)
	require.Empty(t, l.Tickets)
	require.True(t, l.Last)
}

// A list waits for no payment: it leaves tickets out that are being passed on, and counts them. If
// the transfer completes, the buyer's ticket is later than the list, so that doors admit it; if it
// fails, the seller's is not listed.
func TestListLeavesTicketsOutThatArePassedOn(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.exec(t, `UPDATE events SET transferable = 'PRICED'`)
	// Ids of tickets have the real time, so that the database's must not be far from it.
	h.Clock.Set(time.Now())
	h.exec(t, `UPDATE events SET sales_open_at = $1, sales_close_at = $2, starts_at = $2`, h.Clock.Now().Add(-time.Hour), h.Clock.Now().Add(48*time.Hour))
	stays, passes, fails := h.buy(t, "u", "A-1-1"), h.buy(t, "v", "A-1-2"), h.buy(t, "w", "A-1-3")
	buyerPays, _ := h.charge(t, passes.id), h.charge(t, fails.id)
	h.exec(t, `UPDATE events SET closes_at = $1`, h.Clock.Now().Add(-checkin.ListAfter-time.Second))

	p, err := h.doors.List(t.Context(), "e", nil, 0)
	require.NoError(t, err)
	require.EqualValues(t, 2, p.Transferring)
	list := h.pages(t, 0)[0]
	require.Equal(t, []ticket.DoorTicket{{ID: stays.id, Serial: 1}}, list.Tickets)
	h.Settle(t, buyerPays)
	h.Clock.Advance(time.Hour)
	require.NoError(t, h.Transfers.ExpireDue(t.Context()))
	h.RequireInvariants(t)

	bought := h.TicketIDs(t, buyerPays.Payment)[0]
	sec, nsec := bought.Time().UnixTime()
	require.True(t, time.Unix(sec, nsec).After(list.Time), "admitted by its code")
	require.Equal(t, []checkin.Result{checkin.Admitted}, h.upload(t, 1, h.offline(h.code(t, bought))))
	_, err = h.checkIn(t.Context(), passes.code)
	requireWhy(t, checkin.Result(ticket.Transferred), err)
	h.mustCheckIn(t, fails.code) // at a door with a network
	p, err = h.doors.List(t.Context(), "e", nil, 0)
	require.NoError(t, err)
	require.Zero(t, p.Transferring)
}

// charge offers a ticket to a friend, who accepts and is about to be charged, and returns the event
// that the payment is confirmed.
func (h *hall) charge(t *testing.T, id uuid.UUID) settlement.PaymentEvent {
	t.Helper()
	offered, _, err := h.Transfers.Offer(t.Context(), transfer.Request{TicketID: id, Seller: h.find(t, id).UserID, ToUser: "friend", Price: 70}, nil)
	require.NoError(t, err)
	_, err = h.Transfers.Accept(t.Context(), "friend", purchase.Contact{}, "", offered.ID)
	require.NoError(t, err)
	p := purchase.Payment{ID: uuid.New(), UserID: "friend", EventID: "e", Amount: 70, Currency: "KRW"}
	_, err = h.Transfers.BeginPayment(t.Context(), "friend", offered.ID, p.ID, purchase.PayTime{Within: 30 * time.Minute})
	require.NoError(t, err)
	return settlement.PaymentEvent{Key: uuid.NewString(), Type: purchase.Transfer, ReferenceID: offered.ID, Payment: p}
}

func TestListIsReadyOnceNothingChangesAnyMore(t *testing.T) {
	t.Parallel()
	h := open(t)
	b := h.buy(t, "u", "A-1-1")
	requireNotReady := func(wait time.Duration) {
		t.Helper()
		_, err := h.doors.List(t.Context(), "e", nil, 0)
		require.ErrorIs(t, err, checkin.ErrListNotReady)
		require.InDelta(t, wait.Seconds(), errs.From(err).RetryAfter.Seconds(), 0.01)
	}
	h.close(-time.Minute)
	requireNotReady(time.Minute + checkin.ListAfter)
	h.close(checkin.ListAfter - time.Second)
	requireNotReady(time.Second)
	h.close(checkin.ListAfter)
	require.Equal(t, []ticket.DoorTicket{{ID: b.id, Serial: 1}}, h.pages(t, 1)[0].Tickets)

	// The event's own doors_at or closes_at decides when the list is ready.
	h.exec(t, `UPDATE events SET doors_at = starts_at - interval '2 hours'`)
	h.Clock.Set(storetest.Start.Add(46*time.Hour + checkin.ListAfter))
	h.pages(t, 0)
	h.exec(t, `UPDATE events SET closes_at = starts_at - interval '90 minutes'`)
	requireNotReady(30 * time.Minute)

	_, err := h.doors.List(t.Context(), "none", nil, 0)
	require.ErrorIs(t, err, event.ErrNotFound)
	h.close(checkin.ListAfter)
	p, err := h.doors.List(t.Context(), "e", nil, 1)
	require.NoError(t, err)
	for _, at := range []time.Time{{}, h.Clock.Now().Add(-time.Hour), h.Clock.Now()} {
		forged := *p.Next
		forged.Time = at
		_, err = h.doors.List(t.Context(), "e", &forged, 1)
		require.ErrorIs(t, err, errs.ErrInvalidCursor, "it would admit whom the list does not")
	}
	h.exec(t, `UPDATE events SET epoch = 2`)
	_, err = h.doors.List(t.Context(), "e", p.Next, 1)
	require.ErrorIs(t, err, errs.ErrInvalidCursor, "half of a list of each date")
	h.exec(t, `UPDATE events SET state = 'CANCELLED'`)
	_, err = h.doors.List(t.Context(), "e", nil, 0)
	require.ErrorIs(t, err, event.ErrCancelled)
}

// A door refuses a page of a list that was changed.
func TestForgedLists(t *testing.T) {
	t.Parallel()
	h := open(t)
	h.buy(t, "u", "A-1-1")
	h.close(checkin.ListAfter)
	p, err := h.doors.List(t.Context(), "e", nil, 0)
	require.NoError(t, err)
	for i := range p.Signed {
		changed := []byte(p.Signed)
		changed[i] ^= 1
		_, err := h.keys.VerifyDoorList(string(changed))
		require.ErrorIs(t, err, ticket.ErrCodeInvalid, fmt.Sprint(i))
		_, err = h.keys.VerifyDoorList(p.Signed[:i])
		require.ErrorIs(t, err, ticket.ErrCodeInvalid, fmt.Sprint(i))
	}
	_, err = h.keys.Verify(p.Signed)
	require.ErrorIs(t, err, ticket.ErrCodeInvalid, "a list is no code")
}
