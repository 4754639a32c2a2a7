package app

import (
	"net/http"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/handlers"
	"urr.guru/services/gateway/internal/web"
)

// fromHTTP adapts an http.Handler to a route. The handler sees the normalised path.
func fromHTTP(h http.Handler) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
		h.ServeHTTP(w, atPath(r, q.Path))
		return nil
	}
}

// eventPage serves the page of an event, or to people the page for an unknown event.
func eventPage(pages *web.Pages, existence *handlers.EventExistence) edge.Handler {
	return func(w http.ResponseWriter, r *http.Request, q *edge.Request) error {
		switch {
		case !existence.Absent(r.Context(), q.Event):
			pages.Page("event").ServeHTTP(w, r)
		case pages.NoEvent(w, r):
			q.Refused = errs.ErrEventNotFound
		default:
			return errs.ErrEventNotFound
		}
		return nil
	}
}

// atPath returns the request with the normalised path.
func atPath(r *http.Request, path string) *http.Request {
	if r.URL.Path == path && r.URL.RawPath == "" {
		return r
	}
	clone := r.Clone(r.Context())
	clone.URL.Path, clone.URL.RawPath = path, ""
	return clone
}

// health reports that the process responds; readiness is /readyz on the ops port.
func health(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write([]byte(`{"status":"ok"}` + "\n"))
}
