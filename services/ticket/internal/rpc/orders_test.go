package rpc_test

import (
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestOrdersOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	codes := c.codes(t, "u", "A-1-1", "A-1-2")
	held := c.holdSeats(t, "u", "A-1-3")
	in, err := c.CheckIn(ctx, &ticketv1.CheckInRequest{Caller: staff(), EventId: "e", Code: codes[0], DeviceId: "Gate 1"})
	require.NoError(t, err)

	search := &ticketv1.SearchOrdersRequest{Caller: admin(), User: "u", Limit: 1}
	page, err := c.SearchOrders(ctx, search)
	require.NoError(t, err)
	require.Equal(t, held.GetReservationId(), page.GetItems()[0].GetReservationId())
	require.Equal(t, "HELD", page.GetItems()[0].GetStatus())
	require.Nil(t, page.GetItems()[0].PaymentId)
	search.Cursor = page.GetNextCursor()
	page, err = c.SearchOrders(ctx, search)
	require.NoError(t, err)
	require.Empty(t, page.GetNextCursor())
	paid := page.GetItems()[0]
	require.Equal(t, "CONFIRMED", paid.GetStatus())
	require.Equal(t, "A-1-2", paid.GetSeats()[1].GetSeatId())

	for _, q := range []*ticketv1.SearchOrdersRequest{
		{Code: codes[0]}, {EventId: "e"}, {EventId: "e", Seat: "A-1-1"}, {ReservationId: paid.GetReservationId()}, {Code: codes[1], User: "u", EventId: "e"},
	} {
		q.Caller = admin()
		page, err := c.SearchOrders(ctx, q)
		require.NoError(t, err)
		require.Len(t, page.GetItems(), 1, "%v", q)
		require.Equal(t, paid.GetReservationId(), page.GetItems()[0].GetReservationId(), "%v", q)
	}

	_, err = c.pool.Exec(ctx, `UPDATE tickets SET disputed = seat_id = 'A-1-2'`)
	require.NoError(t, err)
	d, err := c.GetOrder(ctx, &ticketv1.GetOrderRequest{Caller: admin(), ReservationId: paid.GetReservationId()})
	require.NoError(t, err)
	require.Equal(t, paid.GetPaymentId(), d.GetOrder().GetPaymentId())
	require.Equal(t, []string{"VALID", "USED"}, []string{d.GetTickets()[0].GetStatus(), d.GetTickets()[1].GetStatus()})
	require.Equal(t, "A-1-2", d.GetTickets()[1].GetSeatId())
	require.Equal(t, []bool{false, true}, []bool{d.GetTickets()[0].GetDisputed(), d.GetTickets()[1].GetDisputed()})
	require.Equal(t, paid.GetPaymentId(), d.GetTickets()[1].GetPaymentId())
	require.Equal(t, in.GetScanId(), d.GetScans()[0].GetScanId())
	require.Equal(t, "Gate 1", d.GetScans()[0].GetDeviceId())
	require.Equal(t, "ADMITTED", d.GetScans()[0].GetResult())
	require.Empty(t, d.GetPayments(), "the gateway adds them")
}

func TestRefusedOrders(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	for _, q := range []struct {
		search *ticketv1.SearchOrdersRequest
		reason string
		fields []string
	}{
		{&ticketv1.SearchOrdersRequest{}, "INVALID_REQUEST", []string{"user"}},
		{&ticketv1.SearchOrdersRequest{Seat: "A-1-1"}, "INVALID_REQUEST", []string{"eventId"}},
		{&ticketv1.SearchOrdersRequest{EventId: "a b"}, "INVALID_REQUEST", []string{"eventId"}},
		{&ticketv1.SearchOrdersRequest{ReservationId: "x"}, "INVALID_REQUEST", []string{"reservationId"}},
		{&ticketv1.SearchOrdersRequest{User: "u", Limit: 101}, "INVALID_REQUEST", []string{"limit"}},
		{&ticketv1.SearchOrdersRequest{User: "u", Cursor: "x"}, "INVALID_CURSOR", nil},
		{&ticketv1.SearchOrdersRequest{Code: "x"}, "TICKET_CODE_INVALID", nil},
	} {
		q.search.Caller = admin()
		_, err := c.SearchOrders(ctx, q.search)
		requireReason(t, err, q.reason, q.fields...)
	}
	order := &ticketv1.GetOrderRequest{Caller: signedIn("u"), ReservationId: uuid.NewString()}
	_, err := c.GetOrder(ctx, order)
	requireReason(t, err, "ROLE_REQUIRED")
	order.Caller = admin()
	_, err = c.GetOrder(ctx, order)
	requireReason(t, err, "RESERVATION_NOT_FOUND")
	_, err = c.SearchOrders(ctx, &ticketv1.SearchOrdersRequest{Caller: signedIn("u"), User: "u"})
	requireReason(t, err, "ROLE_REQUIRED")
}
