package rpc_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// A voided ticket has no code any more. Doors with a network refuse its earlier one, and the upload
// of a door that has admitted it is a conflict. Operators see who has voided it, and why.
func TestVoidTicketOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	codes := c.codes(t, "u", "A-1-1", "A-1-2")
	mine, err := c.ListMyTickets(ctx, &ticketv1.ListMyTicketsRequest{Caller: signedIn("u")})
	require.NoError(t, err)
	ticketOf := func(code string) *ticketv1.Ticket {
		for _, tk := range mine.GetItems() {
			if tk.GetCode() == code {
				return tk
			}
		}
		require.FailNow(t, "no ticket has the code")
		return nil
	}
	first := ticketOf(codes[0]) // of A-1-2: the newest comes first
	req := &ticketv1.VoidTicketRequest{Caller: admin(), TicketId: first.GetTicketId(), Reason: "stolen card"}
	voided, err := c.VoidTicket(ctx, req)
	require.NoError(t, err)
	require.Equal(t, []string{first.GetTicketId()}, voided.GetTicketIds())
	require.Equal(t, []string{first.GetReservationId(), "e", "CONFIRMED"}, []string{voided.GetReservationId(), voided.GetEventId(), voided.GetStatus()})
	require.False(t, voided.GetOfflineDoors())

	shown, err := c.GetMyTicket(ctx, &ticketv1.GetMyTicketRequest{Caller: signedIn("u"), TicketId: first.GetTicketId()})
	require.NoError(t, err)
	require.Equal(t, []string{"VOIDED", "", "VOIDED", "VOIDED"}, []string{
		shown.GetStatus(), shown.GetCode(), shown.GetRefundable().GetReason(), shown.GetTransferable().GetReason(),
	})
	_, err = c.CheckIn(ctx, &ticketv1.CheckInRequest{Caller: staff(), EventId: "e", Code: codes[0], DeviceId: "Gate 1"})
	requireReason(t, err, "NOT_VALID")
	require.Equal(t, "VOIDED", errs.From(err).Metadata["why"])

	c.clock.Advance(47 * time.Hour) // doors have their lists
	uploaded, err := c.UploadScans(ctx, &ticketv1.UploadScansRequest{
		Caller: staff(), EventId: "e", Epoch: 1, DeviceId: "Gate 2",
		Scans: []*ticketv1.OfflineScan{{ScanId: uuid.NewString(), Code: codes[0], At: timestamppb.New(c.clock.Now())}},
	})
	require.NoError(t, err)
	require.Equal(t, "VOIDED", uploaded.GetResults()[0].GetResult())
	order, err := c.VoidOrder(ctx, &ticketv1.VoidOrderRequest{Caller: admin(), ReservationId: first.GetReservationId(), Reason: "all of it"})
	require.NoError(t, err)
	require.Equal(t, "VOIDED", order.GetStatus())
	require.Len(t, order.GetTicketIds(), 2)
	require.True(t, order.GetOfflineDoors())
	again, err := c.VoidTicket(ctx, req)
	require.NoError(t, err, "a repeated call")
	require.Equal(t, voided.GetTicketIds(), again.GetTicketIds())

	d, err := c.GetOrder(ctx, &ticketv1.GetOrderRequest{Caller: admin(), ReservationId: first.GetReservationId()})
	require.NoError(t, err)
	require.Equal(t, "VOIDED", d.GetOrder().GetStatus())
	require.Equal(t, []string{"op", "stolen card"}, []string{d.GetTickets()[1].GetVoid().GetUserId(), d.GetTickets()[1].GetVoid().GetReason()})
	require.Equal(t, "all of it", d.GetTickets()[0].GetVoid().GetReason())
	house, err := c.GetHouse(ctx, &ticketv1.GetHouseRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, []string{"A-1-1", "A-1-2"}, house.GetSeatIds())
	require.Zero(t, house.GetSections()[0].GetSold())
}

func TestRefusedVoids(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	req := &ticketv1.VoidTicketRequest{Caller: signedIn("u"), TicketId: uuid.NewString(), Reason: "r"}
	_, err := c.VoidTicket(ctx, req)
	requireReason(t, err, "ROLE_REQUIRED")
	req.Caller = staff()
	_, err = c.VoidTicket(ctx, req)
	requireReason(t, err, "ROLE_REQUIRED")
	req.Caller = admin()
	_, err = c.VoidTicket(ctx, req)
	requireReason(t, err, "TICKET_NOT_FOUND")
	req.Reason = " "
	_, err = c.VoidTicket(ctx, req)
	requireReason(t, err, "INVALID_REQUEST", "reason")
	_, err = c.VoidOrder(ctx, &ticketv1.VoidOrderRequest{Caller: admin(), ReservationId: uuid.NewString(), Reason: "r"})
	requireReason(t, err, "RESERVATION_NOT_FOUND")
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	held := c.holdSeats(t, "u", "A-1-1")
	_, err = c.VoidOrder(ctx, &ticketv1.VoidOrderRequest{Caller: admin(), ReservationId: held.GetReservationId(), Reason: "r"})
	requireReason(t, err, "NOT_VOIDABLE")
	require.Equal(t, "HELD", errs.From(err).Metadata["reason"])
}
