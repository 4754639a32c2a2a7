package app_test

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/edge"
)

// TestAnUnknownEventHasNoPage: its address answers 404, asked once; with ticket away it answers as
// ever, and its script shows what the API says.
func TestAnUnknownEventHasNoPage(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	program := credentials{"Accept": "application/json"}
	known := w.do(http.MethodGet, "/events/calm", "", nil)
	for range 3 {
		rec := w.do(http.MethodGet, "/events/absent", "", program)
		require.Equal(t, http.StatusNotFound, rec.Code)
		require.Equal(t, "EVENT_NOT_FOUND", problemOf(t, rec)["code"])
		// The same address is asked for by people, too.
		rec = w.do(http.MethodGet, "/events/absent", "", credentials{"Accept": "text/html"})
		require.Equal(t, http.StatusNotFound, rec.Code)
	}
	require.Len(t, w.ticket.of("GetEventInfo"), 2, "one read for each event")

	sale := bodyFor(&edge.Route{ID: "EventAdminService.PutEvent"}, "absent")
	rec := w.do(http.MethodPut, "/api/v1/admin/events/absent", sale, w.session(alice, "admin"))
	require.Equal(t, http.StatusOK, rec.Code, "%s", rec.Body)
	require.Equal(t, known.Code, w.do(http.MethodGet, "/events/absent", "", program).Code, "an event that is put appears at once")

	w.ticket.down.Store(true)
	require.Equal(t, known.Code, w.do(http.MethodGet, "/events/unsure", "", program).Code, "never an error of ticket's")
}
