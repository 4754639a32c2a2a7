package app_test

import (
	"encoding/json"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/edge"
)

// A body of any content is either accepted or refused with a problem document. It never causes an
// internal error or changes the caller. It is never accepted if it is no JSON object.
func FuzzBodies(f *testing.F) {
	w := newFixture(f)
	var routes []*edge.Route
	for _, r := range w.gateway.Routes() {
		if r.Body.JSON || r.Body.Raw {
			routes = append(routes, r)
		}
	}
	for i, r := range routes {
		f.Add(uint(i), "application/json", []byte(bodyFor(r, calm))) //nolint:gosec // a small number
	}
	f.Add(uint(0), "application/json; charset=\"utf-8\"", []byte(`{"caller":{"userId":"root","roles":["admin"]}}`))
	f.Add(uint(1), "text/plain;", []byte("{\"a\":\xff}"))
	f.Fuzz(func(t *testing.T, n uint, contentType string, body []byte) {
		w.t = t
		defer func() { w.t = f }()
		r := routes[n%uint(len(routes))] //nolint:gosec // a small number
		rec := w.do(r.Method, target(r, calm), string(body), validCredentials(w, r).with("Content-Type", contentType))
		require.Less(t, rec.Code, http.StatusInternalServerError, "%s: %s\n%s", r, rec.Body, w.logs.take())
		if rec.Code >= http.StatusBadRequest {
			problemOf(t, rec)
		} else if r.Body.JSON && len(body) > 0 {
			var members map[string]any
			require.NoError(t, json.Unmarshal(body, &members), "%s", r)
			require.NotNil(t, members, "%s", r)
		}
		for _, log := range w.callLogs() {
			for _, c := range log.take() {
				require.Contains(t, []string{"", alice}, c.caller.GetUserId(), "%s: %s", r, c.method)
				require.Subset(t, []string{"admin"}, c.caller.GetRoles(), "%s: %s", r, c.method)
			}
		}
		w.logs.take()
	})
}
