package app_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/edge"
)

// An unknown event gives 404, with one read. While ticket is unavailable the page of the event is
// served.
func TestUnknownEventIsNotFound(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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
