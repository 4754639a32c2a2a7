package rpc_test

import (
	"bytes"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/rpc/rpctest"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func TestEventsOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	req := putEvent("e", "ASSIGNED", rows("A", 2, 5), rows("B", 1, 4))
	put := c.put(t, req)
	require.Equal(t, "ON_SALE", put.GetStatus())
	require.Len(t, put.GetSections(), 2)
	require.EqualValues(t, 10, put.GetSections()[0].GetFree())
	require.Nil(t, put.GetWaitingRoom(), "the gateway's to fill in")
	c.put(t, putEvent("g", "GENERAL", admissions("S", 100)))

	got, err := c.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "Concert", got.GetTitle())
	require.Equal(t, req.GetSpec().GetStartsAt().AsTime().Truncate(time.Microsecond), got.GetStartsAt().AsTime())

	seats, err := c.GetSeatMap(ctx, &ticketv1.GetSeatMapRequest{Caller: inside("u", "e"), EventId: "e"})
	require.NoError(t, err)
	require.EqualValues(t, 14, seats.GetSeats())
	require.Equal(t, "2", seats.GetSections()[0].GetRows()[1].GetRow())
	require.EqualValues(t, 5, seats.GetSections()[0].GetRows()[1].GetSeats())
	require.NotEmpty(t, seats.GetEtag())
	general, err := c.GetSeatMap(ctx, &ticketv1.GetSeatMapRequest{Caller: inside("u", "g"), EventId: "g"})
	require.NoError(t, err)
	require.Empty(t, general.GetSections()[0].GetRows())
	require.Zero(t, general.GetSeats())

	c.holdSeats(t, "u", "A-1-1", "B-1-4")
	var free *ticketv1.Availability
	testkit.Until(t, func() bool {
		free, err = c.GetAvailability(ctx, &ticketv1.GetAvailabilityRequest{Caller: inside("u", "e"), EventId: "e"})
		require.NoError(t, err)
		return bytes.Equal([]byte{0b01111111, 0b11111000}, free.GetBitmap())
	}, "the seats held are missing from what is free, which is at most 100 ms old")
	require.EqualValues(t, 14, free.GetSeats())
	require.EqualValues(t, 9, free.GetSections()[0].GetFree())
	require.NotEmpty(t, free.GetEtag())
	free, err = c.GetAvailability(ctx, &ticketv1.GetAvailabilityRequest{Caller: inside("u", "g"), EventId: "g"})
	require.NoError(t, err)
	require.Empty(t, free.GetBitmap())
	require.EqualValues(t, 100, free.GetSections()[0].GetFree())

	info, err := c.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: "e"})
	require.NoError(t, err)
	require.Equal(t, "Artist", info.GetArtist())
	require.Equal(t, "ASSIGNED", info.GetSeating())
}

func TestListEventsOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, id := range []string{"a", "b", "c"} {
		c.put(t, putEvent(id, "GENERAL", admissions("S", 1)))
	}
	seen := map[string]bool{}
	cursor, pages := "", 0
	for {
		page, err := c.ListEvents(t.Context(), &ticketv1.ListEventsRequest{Limit: 2, Cursor: cursor})
		require.NoError(t, err)
		for _, e := range page.GetItems() {
			seen[e.GetEventId()] = true
		}
		pages++
		if cursor = page.GetNextCursor(); cursor == "" {
			break
		}
	}
	require.Equal(t, 2, pages)
	require.Len(t, seen, 3)
	all, err := c.ListEvents(t.Context(), &ticketv1.ListEventsRequest{})
	require.NoError(t, err)
	require.Len(t, all.GetItems(), 3)
	require.Empty(t, all.GetNextCursor())
}

func TestEventsRefuse(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 4)))
	ctx := t.Context()

	_, err := c.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: "nowhere"})
	requireReason(t, err, "EVENT_NOT_FOUND")
	_, err = c.GetEvent(ctx, &ticketv1.GetEventRequest{EventId: "a b"})
	requireReason(t, err, "INVALID_REQUEST", "eventId")
	_, err = c.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: "nowhere"})
	requireReason(t, err, "EVENT_NOT_FOUND")
	_, err = c.ListEvents(ctx, &ticketv1.ListEventsRequest{Limit: 101})
	requireReason(t, err, "INVALID_REQUEST", "limit")
	outOfRange := []string{"LTQwMDAwMDAwMDAwMDAwMDAwMC54", "NDAwMDAwMDAwMDAwMDAwMDAwLng"} // PostgreSQL has no such times
	for _, cursor := range append(outOfRange, "!", "AAAA", "MTIzLg", "bm90IGEgbnVtYmVyLmE") {
		_, err = c.ListEvents(ctx, &ticketv1.ListEventsRequest{Cursor: cursor})
		requireReason(t, err, "INVALID_CURSOR")
	}
	for reason, caller := range map[string]*commonv1.Caller{
		"UNAUTHENTICATED": {EventId: "e"}, "WRONG_EVENT": inside("u", "other"), "INVALID_ID": inside("a b", "e"),
	} {
		_, err = c.GetSeatMap(ctx, &ticketv1.GetSeatMapRequest{Caller: caller, EventId: "e"})
		requireReason(t, err, reason)
		_, err = c.GetAvailability(ctx, &ticketv1.GetAvailabilityRequest{Caller: caller, EventId: "e"})
		requireReason(t, err, reason)
	}
	_, err = c.GetSeatMap(ctx, &ticketv1.GetSeatMapRequest{Caller: signedIn("u"), EventId: "e"})
	requireReason(t, err, "WRONG_EVENT")
	_, err = c.GetSeatMap(ctx, &ticketv1.GetSeatMapRequest{Caller: inside("u", "x"), EventId: "x"})
	requireReason(t, err, "EVENT_NOT_FOUND")
	_, err = c.PutLineSettings(ctx, &ticketv1.PutLineSettingsRequest{EventId: "e", BlockUser: "a b"})
	requireReason(t, err, "INVALID_ID", "blockUser")
	_, err = c.PutLineSettings(ctx, &ticketv1.PutLineSettingsRequest{EventId: "e", UnblockUser: "a b"})
	requireReason(t, err, "INVALID_ID", "unblockUser")
	_, err = c.PutLineSettings(ctx, &ticketv1.PutLineSettingsRequest{EventId: "e", BlockUser: "a", UnblockUser: "a"})
	requireReason(t, err, "INVALID_REQUEST", "unblockUser")
	_, err = c.PutLineSettings(ctx, &ticketv1.PutLineSettingsRequest{EventId: "e", Threshold: ptr(int64(-1))})
	requireReason(t, err, "INVALID_REQUEST", "threshold")
}

func TestPutEventRefuses(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for name, x := range map[string]struct {
		change func(*ticketv1.PutEventRequest)
		reason string
		field  string
	}{
		"nobody":     {func(r *ticketv1.PutEventRequest) { r.Caller = nil }, "UNAUTHENTICATED", ""},
		"no admin":   {func(r *ticketv1.PutEventRequest) { r.Caller = signedIn("u") }, "ROLE_REQUIRED", ""},
		"id":         {func(r *ticketv1.PutEventRequest) { r.EventId = "{e}" }, "INVALID_REQUEST", "eventId"},
		"no spec":    {func(r *ticketv1.PutEventRequest) { r.Spec = nil }, "INVALID_REQUEST", "spec"},
		"no title":   {func(r *ticketv1.PutEventRequest) { r.Spec.Title = "" }, "INVALID_REQUEST", "title"},
		"no start":   {func(r *ticketv1.PutEventRequest) { r.Spec.StartsAt = nil }, "INVALID_REQUEST", "startsAt"},
		"seating":    {func(r *ticketv1.PutEventRequest) { r.Spec.Seating = "STANDING" }, "INVALID_REQUEST", "seating"},
		"currency":   {func(r *ticketv1.PutEventRequest) { r.Spec.Currency = "won" }, "INVALID_REQUEST", "currency"},
		"limit":      {func(r *ticketv1.PutEventRequest) { r.Spec.MaxPerUser = 0 }, "INVALID_REQUEST", "maxPerUser"},
		"local zone": {func(r *ticketv1.PutEventRequest) { r.Spec.TimeZone = ptr("Local") }, "INVALID_REQUEST", "timeZone"},
		"no zone":    {func(r *ticketv1.PutEventRequest) { r.Spec.TimeZone = ptr("") }, "INVALID_REQUEST", "timeZone"},
		"bad zone":   {func(r *ticketv1.PutEventRequest) { r.Spec.TimeZone = ptr("Asia/Soul") }, "INVALID_REQUEST", "timeZone"},
		"hold":       {func(r *ticketv1.PutEventRequest) { r.Spec.HoldSeconds = ptr(int32(4)) }, "INVALID_REQUEST", "holdSeconds"},
		"sections":   {func(r *ticketv1.PutEventRequest) { r.Spec.Sections = nil }, "INVALID_REQUEST", "sections"},
		"hyphen":     {func(r *ticketv1.PutEventRequest) { r.Spec.Sections[0].Section = "A-1" }, "INVALID_REQUEST", "sections[0].section"},
		"price":      {func(r *ticketv1.PutEventRequest) { r.Spec.Sections[0].Price = -1 }, "INVALID_REQUEST", "sections[0].price"},
		"rows":       {func(r *ticketv1.PutEventRequest) { r.Spec.Sections[0].Rows = nil }, "INVALID_REQUEST", "sections[0].rows"},
		"closes":     {func(r *ticketv1.PutEventRequest) { r.Spec.SalesCloseAt = r.GetSpec().GetSalesOpenAt() }, "INVALID_REQUEST", "salesCloseAt"},
		"starts":     {func(r *ticketv1.PutEventRequest) { r.Spec.StartsAt = r.GetSpec().GetSalesOpenAt() }, "INVALID_REQUEST", "startsAt"},
		"no plan": {func(r *ticketv1.PutEventRequest) {
			opens := timestamppb.New(r.GetSpec().GetSalesOpenAt().AsTime().Add(-time.Hour))
			r.Spec.Presale = &ticketv1.Presale{OpensAt: opens, Any: []*ticketv1.PresaleWay{{List: ptr("l")}, {PlanId: ptr("none")}}}
		}, "INVALID_REQUEST", "presale.any[1].planId"},
		"not a time": {func(r *ticketv1.PutEventRequest) { r.Spec.StartsAt = &timestamppb.Timestamp{Nanos: -1} }, "INVALID_REQUEST", ""},
	} {
		req := putEvent("e", "ASSIGNED", rows("A", 1, 4))
		x.change(req)
		_, err := c.PutEvent(t.Context(), req)
		require.Error(t, err, name)
		if x.field != "" {
			requireReason(t, err, x.reason, x.field)
		} else {
			requireReason(t, err, x.reason)
		}
	}
	_, err := c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "e"})
	requireReason(t, err, "EVENT_NOT_FOUND")
}

func TestCreateEventOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	req := &ticketv1.CreateEventRequest{Caller: admin(), Spec: putEvent("", "GENERAL", admissions("S", 9)).GetSpec()}
	req.Spec.Threshold, req.Spec.SlotSeconds, req.Spec.HoldSeconds = ptr(int64(50)), ptr(int64(120)), ptr(int32(30))
	req.Caller.IdempotencyKey = "k"
	first, err := c.CreateEvent(t.Context(), req)
	require.NoError(t, err)
	require.NoError(t, uuid.Validate(first.GetEventId()))
	again, err := c.CreateEvent(t.Context(), req)
	require.NoError(t, err)
	require.Equal(t, first.GetEventId(), again.GetEventId())
	req.Spec.Title = "Another"
	_, err = c.CreateEvent(t.Context(), req)
	requireReason(t, err, "IDEMPOTENCY_KEY_REUSED")
	req.Caller = signedIn("u")
	_, err = c.CreateEvent(t.Context(), req)
	requireReason(t, err, "ROLE_REQUIRED")

	line, err := c.GetLineSettings(t.Context(), &ticketv1.GetLineSettingsRequest{EventId: first.GetEventId()})
	require.NoError(t, err)
	require.EqualValues(t, 50, line.GetThreshold())
	require.EqualValues(t, 120, line.GetSlotSeconds())
	require.Equal(t, first.GetSalesCloseAt().AsTime(), line.GetClosesAt().AsTime())
	line, err = c.PutLineSettings(t.Context(), &ticketv1.PutLineSettingsRequest{EventId: first.GetEventId(), Paused: ptr(true), BlockUser: "bot"})
	require.NoError(t, err)
	_, err = c.PutLineSettings(t.Context(), &ticketv1.PutLineSettingsRequest{EventId: first.GetEventId(), Paused: ptr(false), BlockUser: "bot", Act: 1})
	requireReason(t, err, "INVALID_REQUEST", "act")
	require.True(t, line.GetPaused())
	require.Equal(t, []string{"bot"}, line.GetBlockedUsers())
	require.EqualValues(t, 50, line.GetThreshold())
	line, err = c.PutLineSettings(t.Context(), &ticketv1.PutLineSettingsRequest{EventId: first.GetEventId(), UnblockUser: "bot"})
	require.NoError(t, err)
	require.True(t, line.GetPaused())
	require.Empty(t, line.GetBlockedUsers())
	_, err = c.GetLineSettings(t.Context(), &ticketv1.GetLineSettingsRequest{EventId: "campaign"})
	requireReason(t, err, "EVENT_NOT_FOUND")
	_, err = c.PutLineSettings(t.Context(), &ticketv1.PutLineSettingsRequest{EventId: "campaign"})
	require.NoError(t, err)
	line, err = c.GetLineSettings(t.Context(), &ticketv1.GetLineSettingsRequest{EventId: "campaign"})
	require.NoError(t, err)
	require.Nil(t, line.Threshold)
	require.Nil(t, line.GetClosesAt())
	for _, first := range []bool{true, false} {
		require.Equal(t, first, line.GetNeverOpened())
		marked, err := c.MarkLineOpened(t.Context(), &ticketv1.MarkLineOpenedRequest{EventId: "campaign"})
		require.NoError(t, err)
		require.Equal(t, first, marked.GetFirst())
		line, err = c.GetLineSettings(t.Context(), &ticketv1.GetLineSettingsRequest{EventId: "campaign"})
		require.NoError(t, err)
	}
}

func TestSaleStatusOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("on", "GENERAL", admissions("S", 9)))
	soon := putEvent("later", "GENERAL", admissions("S", 9))
	soon.Spec.SalesOpenAt = timestamppb.New(opening.Add(time.Hour))
	c.put(t, soon)
	res, err := c.GetSaleStatus(t.Context(), &ticketv1.GetSaleStatusRequest{EventIds: []string{"on", "nowhere", "later"}})
	require.NoError(t, err)
	want := []*ticketv1.SaleStatus{
		{EventId: "later", Status: "SCHEDULED", OpensAt: soon.GetSpec().GetSalesOpenAt(), ClosesAt: soon.GetSpec().GetSalesCloseAt()},
		{EventId: "on", Status: "ON_SALE", OpensAt: timestamppb.New(opening.Add(-time.Hour)), ClosesAt: soon.GetSpec().GetSalesCloseAt()},
	}
	varying := protocmp.IgnoreFields(&ticketv1.SaleStatus{}, "measured_ago_ms", "settings_version")
	require.Empty(t, cmp.Diff(want, res.GetSales(), protocmp.Transform(), varying))
	require.NotZero(t, res.GetSales()[0].GetSettingsVersion())

	_, err = c.GetSaleStatus(t.Context(), &ticketv1.GetSaleStatusRequest{})
	requireReason(t, err, "INVALID_REQUEST", "eventIds")
	_, err = c.GetSaleStatus(t.Context(), &ticketv1.GetSaleStatusRequest{EventIds: make([]string, 1001)})
	require.Error(t, err)
	_, err = c.GetSaleStatus(t.Context(), &ticketv1.GetSaleStatusRequest{EventIds: []string{"a b"}})
	requireReason(t, err, "INVALID_REQUEST", "eventIds[0]")
}

// A service may call only the RPCs that the proto files allow it to call.
func TestCallersNeedTheirRole(t *testing.T) {
	t.Parallel()
	payment, queue, gateway := serve(t, rpctest.As("payment")), serve(t, rpctest.As("queue")), serve(t, rpctest.As("gateway"))
	ctx := t.Context()
	id := uuid.NewString()
	calls := map[string]func(c *client) error{
		"ListEvents": func(c *client) error { _, err := c.ListEvents(ctx, &ticketv1.ListEventsRequest{}); return err },
		"GetEventInfo": func(c *client) error {
			_, err := c.GetEventInfo(ctx, &ticketv1.GetEventInfoRequest{EventId: "x"})
			return err
		},
		"GetLineSettings": func(c *client) error {
			_, err := c.GetLineSettings(ctx, &ticketv1.GetLineSettingsRequest{EventId: "x"})
			return err
		},
		"GetSaleStatus": func(c *client) error {
			_, err := c.GetSaleStatus(ctx, &ticketv1.GetSaleStatusRequest{EventIds: []string{"x"}})
			return err
		},
		"MarkLineOpened": func(c *client) error {
			_, err := c.MarkLineOpened(ctx, &ticketv1.MarkLineOpenedRequest{EventId: "x"})
			return err
		},
		"GetPayable": func(c *client) error {
			_, err := c.GetPayable(ctx, &ticketv1.GetPayableRequest{PaymentType: "reservation", ReferenceId: id, UserId: "u"})
			return err
		},
		"HoldBest": func(c *client) error {
			_, err := c.HoldBest(ctx, &ticketv1.HoldBestRequest{Items: []*ticketv1.HoldBestItem{{}}})
			return err
		},
	}
	for name, c := range map[string]struct {
		client  *client
		allowed map[string]bool
	}{
		"payment": {payment, map[string]bool{"GetPayable": true}},
		"queue":   {queue, map[string]bool{"GetEventInfo": true, "GetLineSettings": true, "GetSaleStatus": true, "MarkLineOpened": true}},
		"gateway": {gateway, map[string]bool{"ListEvents": true, "GetEventInfo": true, "HoldBest": true}},
	} {
		for call, fn := range calls {
			err := fn(c.client)
			if !c.allowed[call] {
				require.ErrorContains(t, err, "may not call this method", "%s %s", name, call)
			} else if err != nil {
				require.NotContains(t, err.Error(), "may not call this method", "%s %s", name, call)
			}
		}
	}
}
