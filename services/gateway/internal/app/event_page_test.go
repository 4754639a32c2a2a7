package app_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/language"
)

// unhurried calls do not have the deadline of their caller, which a busy machine may exceed.
type unhurried struct{ grpc.ClientConnInterface }

func (u unhurried) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return u.ClientConnInterface.Invoke(context.WithoutCancel(ctx), method, args, reply, opts...)
}

// An unknown event gives 404, with one read. While ticket is unavailable the page of the event is
// served.
func TestUnknownEventIsNotFound(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(_ *app.Config, s *app.Services) { s.Ticket = unhurried{s.Ticket} })
	program := credentials{"Accept": "application/json"}
	known := w.do(http.MethodGet, "/events/calm", "", nil)
	for range 3 {
		rec := w.do(http.MethodGet, "/events/absent", "", program)
		require.Equal(t, http.StatusNotFound, rec.Code)
		require.Equal(t, "EVENT_NOT_FOUND", problemOf(t, rec)["code"])
		// People get a page with the same status.
		rec = w.do(http.MethodGet, "/events/absent", "", credentials{"Accept": "text/html"})
		require.Equal(t, http.StatusNotFound, rec.Code)
	}
	require.Len(t, w.ticket.of("GetEventInfo"), 2, "one read for each event")

	sale := bodyFor(&edge.Route{ID: "EventAdminService.PutEvent"}, "absent")
	rec := w.do(http.MethodPut, "/api/v1/admin/events/absent", sale, w.session(alice, "admin"))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	require.Equal(t, known.Code, w.do(http.MethodGet, "/events/absent", "", program).Code, "a new event appears at once")

	w.ticket.down.Store(true)
	require.Equal(t, known.Code, w.do(http.MethodGet, "/events/unsure", "", program).Code, "an error of ticket is not shown")
}

// The page of an event is shared for a second, but not while its room is active: then only those get
// it who have passed the room.
func TestEventPageIsSharedWithoutARoom(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	person := credentials{"Accept": "text/html", language.EdgeHeader: "ko"}
	rec := w.do(http.MethodGet, "/events/calm", "", person)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "public, max-age=0, s-maxage=1", rec.Header().Get("Cache-Control"))
	require.Empty(t, rec.Header().Get("X-Request-Id"))
	rec = w.do(http.MethodGet, "/events/busy", "", person)
	require.Equal(t, http.StatusFound, rec.Code)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	visitor := tier1Credentials(w, w.tier1, round, busy, w.now())
	rec = w.do(http.MethodGet, "/events/busy", "", person.with("Cookie", visitor["Cookie"]))
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "private, no-cache", rec.Header().Get("Cache-Control"))
}
