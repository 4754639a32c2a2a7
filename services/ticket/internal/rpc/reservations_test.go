package rpc_test

import (
	"fmt"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestReservationsOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	c.put(t, putEvent("f", "ASSIGNED", rows("A", 1, 5)))
	r := c.holdSeats(t, "u", "A-1-1")
	get := func(caller *commonv1.Caller, id string) error {
		_, err := c.GetReservation(ctx, &ticketv1.GetReservationRequest{Caller: caller, ReservationId: id})
		return err
	}
	mine := func(caller *commonv1.Caller, id string) error {
		_, err := c.GetMyReservation(ctx, &ticketv1.GetReservationRequest{Caller: caller, ReservationId: id})
		return err
	}
	cancel := func(caller *commonv1.Caller, id string) error {
		_, err := c.CancelReservation(ctx, &ticketv1.CancelReservationRequest{Caller: caller, ReservationId: id})
		return err
	}
	cancelMine := func(caller *commonv1.Caller, id string) error {
		_, err := c.CancelMyReservation(ctx, &ticketv1.CancelReservationRequest{Caller: caller, ReservationId: id})
		return err
	}
	id := r.GetReservationId()
	for name, call := range map[string]func(*commonv1.Caller, string) error{"get": get, "mine": mine, "cancel": cancel, "cancelMine": cancelMine} {
		requireReason(t, call(inside("u", "e"), "not-a-uuid"), "INVALID_REQUEST", "reservationId")
		requireReason(t, call(inside("v", "e"), id), "RESERVATION_NOT_FOUND")
		requireReason(t, call(inside("u", "e"), uuid.NewString()), "RESERVATION_NOT_FOUND")
		requireReason(t, call(&commonv1.Caller{EventId: "e"}, id), "UNAUTHENTICATED")
		if name == "get" || name == "cancel" {
			requireReason(t, call(inside("u", "f"), id), "WRONG_EVENT")
			requireReason(t, call(signedIn("u"), id), "WRONG_EVENT")
		}
	}
	require.NoError(t, get(inside("u", "e"), id))
	require.NoError(t, mine(signedIn("u"), id))
	require.NoError(t, cancelMine(signedIn("u"), id))
	require.NoError(t, cancel(inside("u", "e"), id), "again")
	got, err := c.GetMyReservation(ctx, &ticketv1.GetReservationRequest{Caller: signedIn("u"), ReservationId: id})
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", got.GetStatus())
}

func TestListMyReservations(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	var want []string
	for i := range 4 {
		want = append([]string{c.holdSeats(t, "u", fmt.Sprintf("A-1-%d", i+1)).GetReservationId()}, want...)
	}
	page, err := c.ListMyReservations(ctx, &ticketv1.ListMyReservationsRequest{Caller: signedIn("u"), Limit: 3})
	require.NoError(t, err)
	secondPage, err := c.ListMyReservations(ctx, &ticketv1.ListMyReservationsRequest{Caller: signedIn("u"), Limit: 3, Cursor: page.GetNextCursor()})
	require.NoError(t, err)
	require.Empty(t, secondPage.GetNextCursor())
	var ids []string
	for _, r := range append(page.GetItems(), secondPage.GetItems()...) {
		ids = append(ids, r.GetReservationId())
	}
	require.Equal(t, want, ids)
	_, err = c.ListMyReservations(ctx, &ticketv1.ListMyReservationsRequest{Caller: signedIn("u"), Cursor: "AAAA"})
	requireReason(t, err, "INVALID_CURSOR")
	_, err = c.ListMyReservations(ctx, &ticketv1.ListMyReservationsRequest{})
	requireReason(t, err, "UNAUTHENTICATED")

	c.clock.Advance(holdFor)
	got, err := c.GetReservation(ctx, &ticketv1.GetReservationRequest{Caller: inside("u", "e"), ReservationId: want[0]})
	require.NoError(t, err)
	require.Equal(t, "EXPIRED", got.GetStatus(), "before anybody swept it")
	page, err = c.ListMyReservations(ctx, &ticketv1.ListMyReservationsRequest{Caller: signedIn("u")})
	require.NoError(t, err)
	require.Equal(t, "EXPIRED", page.GetItems()[0].GetStatus())
	_, err = c.CancelMyReservation(ctx, &ticketv1.CancelReservationRequest{Caller: signedIn("u"), ReservationId: want[0]})
	requireReason(t, err, "HOLD_EXPIRED")
}
