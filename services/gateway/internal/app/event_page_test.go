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

// withoutDeadline makes calls without the caller's deadline, which a busy machine could exceed.
type withoutDeadline struct{ grpc.ClientConnInterface }

func (u withoutDeadline) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return u.ClientConnInterface.Invoke(context.WithoutCancel(ctx), method, args, reply, opts...)
}

// An unknown event is 404, after one call of the ticket service. While that service is unavailable,
// the page of the event is served.
func TestUnknownEventIsNotFound(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(_ *app.Config, s *app.Services) { s.Ticket = withoutDeadline{s.Ticket} })
	apiClient := credentials{"Accept": "application/json"}
	existing := w.do(http.MethodGet, "/events/calm", "", nil)
	for range 3 {
		rec := w.do(http.MethodGet, "/events/absent", "", apiClient)
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
	require.Equal(t, existing.Code, w.do(http.MethodGet, "/events/absent", "", apiClient).Code, "a new event appears at once")

	w.ticket.down.Store(true)
	require.Equal(t, existing.Code, w.do(http.MethodGet, "/events/unsure", "", apiClient).Code, "an error of ticket is not shown")
}

// Shared caches may keep the page of an event for a second. While the event's room is active they
// must not, since only visitors who have passed the room get the page.
func TestEventPageIsSharedWithoutARoom(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	browser := credentials{"Accept": "text/html", language.CDNHeader: "ko"}
	rec := w.do(http.MethodGet, "/events/calm", "", browser)
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "public, max-age=0, s-maxage=1", rec.Header().Get("Cache-Control"))
	require.Empty(t, rec.Header().Get("X-Request-Id"))
	rec = w.do(http.MethodGet, "/events/busy", "", browser)
	require.Equal(t, http.StatusFound, rec.Code)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	visitor := tier1Credentials(w, w.tier1, round, busy, w.now())
	rec = w.do(http.MethodGet, "/events/busy", "", browser.with("Cookie", visitor["Cookie"]))
	require.Equal(t, http.StatusOK, rec.Code)
	require.Equal(t, "private, no-cache", rec.Header().Get("Cache-Control"))
}
