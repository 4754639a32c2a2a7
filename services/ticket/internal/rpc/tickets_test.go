package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestTicketsOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	r := c.holdSeats(t, "u", "A-1-1", "A-1-2", "A-1-3")
	c.pay(t, r, uuid.New())
	page, err := c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("u"), Limit: 2})
	require.NoError(t, err)
	require.Len(t, page.GetItems(), 2)
	secondPage, err := c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("u"), Limit: 2, Cursor: page.GetNextCursor()})
	require.NoError(t, err)
	require.Len(t, secondPage.GetItems(), 1)
	for _, tk := range append(page.GetItems(), secondPage.GetItems()...) {
		require.Equal(t, "VALID", tk.GetStatus())
		require.Equal(t, r.GetReservationId(), tk.GetReservationId())
		code, err := c.keys.Verify(tk.GetCode())
		require.NoError(t, err)
		require.Equal(t, tk.GetTicketId(), code.TicketID.String())
		require.Equal(t, tk.GetSeat().GetSeatId(), code.Place)
		require.Equal(t, "e", code.EventID)
		one, err := c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{Caller: signedIn("u"), TicketId: tk.GetTicketId()})
		require.NoError(t, err)
		require.Equal(t, tk.GetCode(), one.GetCode())
		_, err = c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{Caller: signedIn("v"), TicketId: tk.GetTicketId()})
		requireReason(t, err, "TICKET_NOT_FOUND")
	}
	_, err = c.pool.Exec(ctx, `UPDATE tickets SET status = 'REFUNDED'`)
	require.NoError(t, err)
	ended, err := c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("u")})
	require.NoError(t, err)
	for _, tk := range ended.GetItems() {
		require.Empty(t, tk.GetCode(), "a refunded ticket admits nobody")
		one, err := c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{Caller: signedIn("u"), TicketId: tk.GetTicketId()})
		require.NoError(t, err)
		require.Empty(t, one.GetCode())
	}
	none, err := c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("v")})
	require.NoError(t, err)
	require.Empty(t, none.GetItems())
	_, err = c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{})
	requireReason(t, err, "UNAUTHENTICATED")
	_, err = c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("u"), Cursor: "?"})
	requireReason(t, err, "INVALID_CURSOR")
	_, err = c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{Caller: signedIn("u"), TicketId: "x"})
	requireReason(t, err, "INVALID_REQUEST", "ticketId")
	_, err = c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{TicketId: uuid.NewString()})
	requireReason(t, err, "UNAUTHENTICATED")
}
