package rpc_test

import (
	"encoding/base64"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/errs"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

func staff() *commonv1.Caller { return &commonv1.Caller{UserId: "door", Roles: []string{"staff"}} }

// codes buys seats for a user, and returns the codes of the user's tickets.
func (c *client) codes(t *testing.T, user string, seats ...string) (codes []string) {
	t.Helper()
	r := c.holdSeats(t, user, seats...)
	c.pay(t, r, uuid.New())
	page, err := c.ListMyTickets(t.Context(), &ticketv1.ListMyTicketsRequest{Caller: signedIn(user)})
	require.NoError(t, err)
	for _, tk := range page.GetItems() {
		codes = append(codes, tk.GetCode())
	}
	return codes
}

func TestCheckInOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	code := c.codes(t, "u", "A-1-2")[0]
	req := &ticketv1.CheckInRequest{Caller: staff(), EventId: "e", Code: code, DeviceId: "Gate 1"}
	in, err := c.CheckIn(ctx, req)
	require.NoError(t, err)
	require.Equal(t, "A-1-2", in.GetSeat().GetSeatId())
	require.Equal(t, "A", in.GetSection())
	c.requireIn(t, 0, in.GetAt())

	_, err = c.CheckIn(ctx, req)
	requireReason(t, err, "ALREADY_USED")
	require.Equal(t, "Gate 1", errs.From(err).Metadata["deviceId"])
	counts, err := c.GetDoorCounts(ctx, &ticketv1.GetDoorCountsRequest{Caller: admin(), EventId: "e"})
	require.NoError(t, err)
	require.EqualValues(t, 1, counts.GetSold())
	require.EqualValues(t, 1, counts.GetCheckedIn())

	undo := &ticketv1.UndoCheckInRequest{Caller: staff(), EventId: "e", ScanId: in.GetScanId()}
	undone, err := c.UndoCheckIn(ctx, undo)
	require.NoError(t, err)
	require.Equal(t, in.GetTicketId(), undone.GetTicketId())
	require.False(t, undone.GetDisputed())
	_, err = c.pool.Exec(ctx, `UPDATE tickets SET disputed = true WHERE user_id = 'u'`)
	require.NoError(t, err)
	req.Caller = admin()
	in, err = c.CheckIn(ctx, req)
	require.NoError(t, err)
	require.True(t, in.GetDisputed())

	require.Nil(t, in.Name)
	req.Code = c.codes(t, "v", "A-1-3")[0]
	_, err = c.pool.Exec(ctx, `WITH given AS (UPDATE tickets SET payment_id = NULL, paid = 0 WHERE user_id = 'v' RETURNING reservation_id, event_id)
		INSERT INTO comps (reservation_id, event_id, name) SELECT reservation_id, event_id, 'Press' FROM given`)
	require.NoError(t, err)
	comp, err := c.CheckIn(ctx, req)
	require.NoError(t, err)
	require.Equal(t, "Press", comp.GetName())
	comp, err = c.UndoCheckIn(ctx, &ticketv1.UndoCheckInRequest{Caller: staff(), EventId: "e", ScanId: comp.GetScanId()})
	require.NoError(t, err)
	require.Equal(t, "Press", comp.GetName())

	req.Code = "x"
	_, err = c.CheckIn(ctx, req)
	requireReason(t, err, "NOT_VALID")
	require.Equal(t, map[string]string{"why": "UNKNOWN_CODE"}, errs.From(err).Metadata)
	undo.ScanId = uuid.NewString()
	_, err = c.UndoCheckIn(ctx, undo)
	requireReason(t, err, "SCAN_NOT_FOUND")
}

func TestDoorsWithoutANetworkOverRPC(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	codes := c.codes(t, "u", "A-1-1", "A-1-2", "A-1-3")
	list := &ticketv1.GetDoorListRequest{Caller: staff(), EventId: "e", Limit: 2}
	_, err := c.GetDoorList(ctx, list)
	requireReason(t, err, "LIST_NOT_READY")
	require.InDelta(t, (47*time.Hour + 10*time.Second).Seconds(), errs.From(err).RetryAfter.Seconds(), 1)

	c.clock.Advance(47*time.Hour + 11*time.Second)
	first, err := c.GetDoorList(ctx, list)
	require.NoError(t, err)
	require.EqualValues(t, 2, first.GetCount())
	list.Cursor = first.GetNextCursor()
	second, err := c.GetDoorList(ctx, list)
	require.NoError(t, err)
	require.Empty(t, second.GetNextCursor())
	listed := map[uuid.UUID]bool{}
	for _, p := range []*ticketv1.DoorList{first, second} {
		require.Equal(t, first.GetTime().AsTime(), p.GetTime().AsTime())
		l, err := c.keys.VerifyDoorList(p.GetPage())
		require.NoError(t, err)
		require.Equal(t, p.GetTime().AsTime(), l.Time)
		for _, tk := range l.Tickets {
			listed[tk.ID] = true
		}
	}
	require.Len(t, listed, 3)
	list.Cursor = "?"
	_, err = c.GetDoorList(ctx, list)
	requireReason(t, err, "INVALID_CURSOR")

	upload := &ticketv1.UploadScansRequest{Caller: staff(), EventId: "e", Epoch: first.GetEpoch(), DeviceId: "d"}
	for _, code := range append(codes, codes[0], "x") {
		upload.Scans = append(upload.Scans, &ticketv1.OfflineScan{ScanId: uuid.NewString(), Code: code, At: timestamppb.New(opening)})
	}
	res, err := c.UploadScans(ctx, upload)
	require.NoError(t, err)
	var results []string
	for i, r := range res.GetResults() {
		require.Equal(t, upload.GetScans()[i].GetScanId(), r.GetScanId())
		results = append(results, r.GetResult())
	}
	require.Equal(t, []string{"ADMITTED", "ADMITTED", "ADMITTED", "ALREADY_USED", "UNKNOWN_CODE"}, results)

	page := &ticketv1.ListConflictsRequest{Caller: staff(), EventId: "e", Limit: 1}
	latest, err := c.ListConflicts(ctx, page)
	require.NoError(t, err)
	require.Equal(t, "UNKNOWN_CODE", latest.GetItems()[0].GetResult())
	require.Empty(t, latest.GetItems()[0].GetTicketId())
	page.Cursor = latest.GetNextCursor()
	last, err := c.ListConflicts(ctx, page)
	require.NoError(t, err)
	require.Equal(t, "ALREADY_USED", last.GetItems()[0].GetResult())
	require.Equal(t, "d", last.GetItems()[0].GetDeviceId())
	require.Equal(t, opening, last.GetItems()[0].GetAt().AsTime())
	require.Empty(t, last.GetNextCursor())
	page.Cursor = "?"
	_, err = c.ListConflicts(ctx, page)
	requireReason(t, err, "INVALID_CURSOR")

	upload.Epoch = 0
	_, err = c.UploadScans(ctx, upload)
	requireReason(t, err, "INVALID_REQUEST", "epoch")
}

// The service itself requires the role of door staff for every call of a door.
func TestDoorsAreForStaff(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ctx := t.Context()
	for reason, caller := range map[string]*commonv1.Caller{"ROLE_REQUIRED": signedIn("u"), "UNAUTHENTICATED": nil} {
		_, err := c.CheckIn(ctx, &ticketv1.CheckInRequest{Caller: caller, EventId: "e", Code: "x"})
		requireReason(t, err, reason)
		_, err = c.UndoCheckIn(ctx, &ticketv1.UndoCheckInRequest{Caller: caller, EventId: "e", ScanId: uuid.NewString()})
		requireReason(t, err, reason)
		_, err = c.GetDoorCounts(ctx, &ticketv1.GetDoorCountsRequest{Caller: caller, EventId: "e"})
		requireReason(t, err, reason)
		_, err = c.GetDoorList(ctx, &ticketv1.GetDoorListRequest{Caller: caller, EventId: "e"})
		requireReason(t, err, reason)
		_, err = c.UploadScans(ctx, &ticketv1.UploadScansRequest{
			Caller: caller, EventId: "e", Epoch: 1, Scans: []*ticketv1.OfflineScan{{ScanId: uuid.NewString(), Code: "x", At: timestamppb.New(opening)}},
		})
		requireReason(t, err, reason)
		_, err = c.ListConflicts(ctx, &ticketv1.ListConflictsRequest{Caller: caller, EventId: "e"})
		requireReason(t, err, reason)
	}
}

// Cursors of door lists contain no user ids, since they may be logged and stored.
func TestCursorsOfDoorListsNameNobody(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.put(t, putEvent("e", "ASSIGNED", rows("A", 1, 5)))
	c.codes(t, "somebody", "A-1-1", "A-1-2")
	c.clock.Advance(47*time.Hour + 11*time.Second)
	list := &ticketv1.GetDoorListRequest{Caller: staff(), EventId: "e", Limit: 1}
	first, err := c.GetDoorList(t.Context(), list)
	require.NoError(t, err)
	decoded, err := base64.RawURLEncoding.DecodeString(first.GetNextCursor())
	require.NoError(t, err)
	require.NotContains(t, string(decoded), "somebody")
	for _, end := range []string{"\x00", "\xff", "u"} {
		list.Cursor = base64.RawURLEncoding.EncodeToString(append(slices.Clone(decoded), end...))
		_, err = c.GetDoorList(t.Context(), list)
		requireReason(t, err, "INVALID_CURSOR")
	}
}
