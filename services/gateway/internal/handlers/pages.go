package handlers

import (
	"net/http"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/web"
)

// FromHTTP adapts an http.Handler to a route. The handler gets the normalised path.
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

// EventPage serves the page of an event. If the event does not exist, people get a page that says so,
// and programs an error.
func EventPage(pages *web.Pages, existence *EventExistence) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
		switch {
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
