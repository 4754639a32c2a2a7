package handlers

import (
	"net/http"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/web"
)

// FromHTTP adapts an http.Handler to a route. The handler gets the cleaned path.
func FromHTTP(h http.Handler) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
		if r.URL.Path != q.Path || r.URL.RawPath != "" {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = q.Path, ""
		}
		h.ServeHTTP(w, r)
		return nil
	}
}

// ActiveRooms knows the active round of an event's waiting room; 0: the room is not active.
type ActiveRooms interface{ ActiveRound(event string) int64 }

// EventPage serves the page of an event. If the event does not exist, people get a page that says
// so, and programs an error. While the event's room is active, only visitors who have passed it get
// the page, so caches must not share it.
func EventPage(pages *web.Pages, existence *EventExistence, rooms ActiveRooms) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
		switch {
		case rooms.ActiveRound(q.Event) != 0 && !existence.Absent(r.Context(), q.Event):
			pages.Private("event").ServeHTTP(w, r)
		case !existence.Absent(r.Context(), q.Event):
			pages.Page("event").ServeHTTP(w, r)
		case pages.ServeNoEvent(w, r):
			q.Refused = errs.ErrEventNotFound
		default:
			return errs.ErrEventNotFound
		}
		return nil
	}
}

// Health responds 200 as long as the process responds. (Readiness is /readyz on the ops port.)
func Health(w http.ResponseWriter, _ *http.Request, _ *edge.Request) error {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
	return nil
}
