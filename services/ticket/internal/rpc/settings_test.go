package rpc_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// Operators read back what they wrote: what they get may be put again as it is.
func TestSettingsRoundTrip(t *testing.T) {
	t.Parallel()
	c := serve(t)
	assigned := putEvent("assigned", "ASSIGNED", rows("A", 2, 5), rows("B", 1, 4))
	assigned.HoldSeconds, assigned.SlotSeconds, assigned.Threshold = ptr(int32(90)), ptr(int32(60)), ptr(int64(0))
	assigned.TimeZone = ptr("America/Argentina/Buenos_Aires")
	general := putEvent("general", "GENERAL", admissions("S", 100))
	general.TimeZone = ptr("Asia/Seoul")
	for _, want := range []*ticketv1.PutEventRequest{assigned, general} {
		put := c.put(t, want)
		require.Equal(t, want.HoldSeconds, put.HoldSeconds)
		require.Equal(t, want.Threshold, put.Threshold)
		got, err := c.GetEventSettings(t.Context(), &ticketv1.GetEventSettingsRequest{Caller: admin(), EventId: want.GetEventId()})
		require.NoError(t, err)
		require.Equal(t, put.GetEtag(), got.GetEtag())

		again := &ticketv1.PutEventRequest{
			Caller: admin(), EventId: want.GetEventId(), Title: got.GetTitle(), Artist: got.GetArtist(), Venue: got.GetVenue(),
			StartsAt: got.GetStartsAt(), SalesOpenAt: got.GetSalesOpenAt(), SalesCloseAt: got.GetSalesCloseAt(), Seating: got.GetSeating(),
			Currency: got.GetCurrency(), MaxPerUser: got.GetMaxPerUser(), HoldSeconds: got.HoldSeconds, Threshold: got.Threshold,
			Sections: got.GetSections(), TimeZone: got.TimeZone,
		}
		if got.SlotSeconds != nil {
			again.SlotSeconds = ptr(int32(got.GetSlotSeconds()))
		}
		require.Empty(t, cmp.Diff(want, again, protocmp.Transform()))
		again.Caller.IfMatch = `"` + got.GetEtag() + `"`
		require.Equal(t, got.GetEtag(), c.put(t, again).GetEtag())
		require.EqualValues(t, 1, version(t, c, want.GetEventId()), "nothing changed")
	}
	_, err := c.GetEventSettings(t.Context(), &ticketv1.GetEventSettingsRequest{Caller: admin(), EventId: "nowhere"})
	requireReason(t, err, "EVENT_NOT_FOUND")
	_, err = c.GetEventSettings(t.Context(), &ticketv1.GetEventSettingsRequest{Caller: signedIn("u"), EventId: "assigned"})
	requireReason(t, err, "ROLE_REQUIRED")
	seen, err := c.GetEvent(t.Context(), &ticketv1.GetEventRequest{EventId: "assigned"})
	require.NoError(t, err)
	require.Nil(t, seen.Threshold, "settings are not for visitors")
	require.Equal(t, assigned.GetTimeZone(), seen.GetTimeZone())
	require.Nil(t, seen.Etag)
}

func version(t *testing.T, c *client, event string) (n int64) {
	t.Helper()
	require.NoError(t, c.pool.QueryRow(t.Context(), `SELECT version FROM events WHERE event_id = $1`, event).Scan(&n))
	return n
}

// The answer to a PUT has the settings in force, not those of the request.
func TestPutEventReturnsTheSettingsInForce(t *testing.T) {
	t.Parallel()
	c := serve(t)
	req := putEvent("e", "GENERAL", admissions("S", 100))
	req.Threshold = ptr(int64(50))
	c.put(t, req)
	_, err := c.PutLineSettings(t.Context(), &ticketv1.PutLineSettingsRequest{EventId: "e", Threshold: ptr(int64(5))})
	require.NoError(t, err)
	req.Title, req.Threshold = "Mended", nil
	put := c.put(t, req)
	require.Equal(t, "Mended", put.GetTitle())
	require.EqualValues(t, 5, put.GetThreshold())
	require.Nil(t, put.SlotSeconds, "the queue's default")
}

func TestIfMatch(t *testing.T) {
	t.Parallel()
	c := serve(t)
	req := putEvent("e", "GENERAL", admissions("S", 100))
	etag := c.put(t, req).GetEtag()
	with := func(match string) error {
		own, _ := proto.Clone(req).(*ticketv1.PutEventRequest)
		own.Caller.IfMatch = match
		_, err := c.PutEvent(t.Context(), own)
		return err
	}
	for _, match := range []string{"*", ` "` + etag + `"`, `"x" ,, "` + etag + `",`, `W/"x", "` + etag + `"`, `"a,b", "` + etag + `"`} {
		require.NoError(t, with(match), match)
	}
	for _, match := range []string{`"x"`, `W/"` + etag + `"`, `""`} {
		requireReason(t, with(match), "PRECONDITION_FAILED")
	}
	for _, match := range []string{etag, `"` + etag, `"x" "` + etag + `"`, `*, "x"`, `w/"x"`, ","} {
		requireReason(t, with(match), "INVALID_REQUEST", "If-Match")
	}
	req.EventId = "absent"
	requireReason(t, with("*"), "PRECONDITION_FAILED")
}
