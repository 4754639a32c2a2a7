package rpc_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Visitors see a cancellation at once. The status for the waiting line shows it once it is final.
func TestCancelAnEvent(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 9)))
	held := c.holdSeats(t, "u", "A-1-1")
	for _, caller := range []*commonv1.Caller{nil, signedIn("u")} {
		_, err := c.CancelEvent(t.Context(), &ticketv1.CancelEventRequest{Caller: caller, EventId: "e"})
		require.Error(t, err)
	}
	_, err := c.RefundEvent(t.Context(), &ticketv1.RefundEventRequest{Caller: admin(), EventId: "e"})
	requireReason(t, err, "EVENT_NOT_CANCELLED")
	s, err := c.PauseEvent(t.Context(), &ticketv1.PauseEventRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "PAUSED", s.GetState())
	require.EqualValues(t, 1, s.GetHolds())
	s, err = c.ResumeEvent(t.Context(), &ticketv1.ResumeEventRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "OPEN", s.GetState())

	s, err = c.CancelEvent(t.Context(), &ticketv1.CancelEventRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "CANCELLED", s.GetState())
	c.requireIn(t, 5*time.Minute, s.GetRefundsAt())
	requireStatus := func(visitors, line string) {
		e, err := c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "e"})
		require.NoError(t, err)
		require.Equal(t, visitors, e.GetStatus())
		sales, err := c.GetSaleStatus(t.Context(), &ticketv1.GetSaleStatusRequest{EventIds: []string{"e"}})
		require.NoError(t, err)
		require.Equal(t, line, sales.GetSales()[0].GetStatus())
		settings, err := c.GetLineSettings(t.Context(), &ticketv1.GetLineSettingsRequest{EventId: "e"})
		require.NoError(t, err)
		require.Equal(t, line == "CANCELLED", settings.GetClosed())
	}
	requireStatus("CANCELLED", "PAUSED")
	_, err = c.GetPayable(t.Context(), &ticketv1.GetPayableRequest{PaymentType: "reservation", ReferenceId: held.GetReservationId(), UserId: "u"})
	requireReason(t, err, "EVENT_CANCELLED")

	s, err = c.UndoCancelEvent(t.Context(), &ticketv1.UndoCancelEventRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "OPEN", s.GetState())
	requireStatus("ON_SALE", "ON_SALE")

	s, err = c.CancelEvent(t.Context(), &ticketv1.CancelEventRequest{Caller: admin(), EventId: "e", GraceSeconds: ptr(int32(10))})
	require.NoError(t, err)
	c.requireIn(t, 10*time.Second, s.GetRefundsAt())
	s, err = c.RefundEvent(t.Context(), &ticketv1.RefundEventRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "ENDED", s.GetState())
	requireStatus("CANCELLED", "CANCELLED")
	_, err = c.UndoCancelEvent(t.Context(), &ticketv1.UndoCancelEventRequest{Caller: admin(), EventId: "e"})
	requireReason(t, err, "REFUNDS_BEGUN")
	_, err = c.PostponeEvent(t.Context(), &ticketv1.PostponeEventRequest{
		Caller: admin(), EventId: "e", StartsAt: timestamppb.New(opening.Add(72 * time.Hour)),
	})
	requireReason(t, err, "EVENT_CANCELLED")
}

func TestPostponeAnEvent(t *testing.T) {
	t.Parallel()
	c := serve(t)
	to := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(opening.Add(d)) }
	put := putEvent("e", "GENERAL", admissions("A", 5))
	put.Spec.CancellationFees = &ticketv1.CancellationFees{Steps: []*ticketv1.CancellationFee{
		{Until: to(24 * time.Hour), Percent: 10}, {Until: to(36 * time.Hour), Percent: 30},
	}}
	c.put(t, put)
	req := &ticketv1.PostponeEventRequest{Caller: signedIn("u"), EventId: "e", StartsAt: to(720 * time.Hour)}
	_, err := c.PostponeEvent(t.Context(), req)
	requireReason(t, err, "ROLE_REQUIRED")
	req.Caller, req.StartsAt = admin(), to(0)
	_, err = c.PostponeEvent(t.Context(), req)
	requireReason(t, err, "START_PAST")
	req.StartsAt, req.DoorsAt = to(720*time.Hour), to(721*time.Hour)
	_, err = c.PostponeEvent(t.Context(), req)
	requireReason(t, err, "INVALID_REQUEST", "doorsAt")
	req.DoorsAt = to(719 * time.Hour)
	s, err := c.PostponeEvent(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, "OPEN", s.GetState())
	e, err := c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, to(720*time.Hour), e.GetStartsAt())
	require.Equal(t, to(48*time.Hour), e.GetPostponedFrom())
	c.requireIn(t, 7*24*time.Hour, e.GetFullRefundUntil())
	require.Equal(t, to(696*time.Hour), e.GetCancellationFees().GetSteps()[0].GetUntil(), "as long before the start")
	require.Equal(t, to(708*time.Hour), e.GetCancellationFees().GetSteps()[1].GetUntil())

	earlier := putEvent("e", "GENERAL", admissions("A", 5))
	earlier.Spec.StartsAt, earlier.Spec.DoorsAt, earlier.Spec.RefundUntil = to(24*time.Hour), to(23*time.Hour), new("none")
	c.put(t, earlier)
	e, err = c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "e"})
	require.NoError(t, err)
	require.Nil(t, e.GetRefundUntil(), "whoever buys now gets nothing back")
	require.Equal(t, to(23*time.Hour), e.GetFullRefundUntil(), "not later than doors have lists")
	c.clock.Set(opening.Add(23 * time.Hour))
	c.put(t, earlier) // so that it is read anew
	e, err = c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "e"})
	require.NoError(t, err)
	require.Nil(t, e.GetFullRefundUntil(), "it is over")
}
