package app_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/edge"
)

// No GET route redirects to a path in the query, with or without valid credentials. Only scripts of
// the pages go to such a path.
func TestNoRouteRedirectsToAQueryParameter(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	raw, err := os.ReadFile("../../web/test/return-paths.json")
	require.NoError(t, err)
	var cases []struct {
		Path string `json:"path"`
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	redirects := 0
	for _, r := range w.gateway.Routes() {
		if r.Method != http.MethodGet {
			continue
		}
		for _, cred := range []credentials{nil, validCredentials(w, r)} {
			cred = cred.with("Accept", "text/html")
			want := w.do(r.Method, target(r, calm), "", cred).Header().Get("Location")
			for i, c := range cases {
				// A route of the API that redirected to the parameter at all would do so for the first two
				// cases, which are paths of the site. Pages, which do redirect, get every case.
				if i > 1 && !r.Page && want == "" {
					continue
				}
				query := url.Values{}
				for _, name := range []string{"returnTo", "redirectTo", "redirect", "next", "url"} {
					query.Set(name, c.Path)
				}
				rec := w.do(r.Method, target(r, calm)+"?"+query.Encode(), "", cred)
				if rec.Code == http.StatusBadRequest {
					continue // a control character in the query of an API route
				}
				location := want
				if want != "" {
					location += "?" + query.Encode() // unchanged, as the query of any link
				}
				require.Equal(t, location, rec.Header().Get("Location"), "%s %q", r, c.Path)
				if want != "" {
					require.True(t, edge.OwnPath(want), want)
					redirects++
				}
			}
		}
	}
	require.Positive(t, redirects, "some pages redirect to the line")
}

// A redirect to a waiting room or line keeps the query of the link. No query makes it lead to
// another site.
func TestRedirectsToRoomsKeepTheQuery(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	page := credentials{"Accept": "text/html"}
	for query, kept := range map[string]string{
		"?x=1&utm_source=a": "?x=1&utm_source=a",
		"?x=%2F%2Fevil":     "?x=%2F%2Fevil",
		"?//evil.example":   "?//evil.example",
		"?":                 "",
		"?x=%zz&%":          "?x=%zz&%",
	} {
		for path, room := range map[string]string{"/events/busy": "/vwr/busy", "/events/busy/seats": "/vwr/busy", "/events/calm/book": "/queue/calm"} {
			location := w.do(http.MethodGet, path+query, "", page).Header().Get("Location")
			require.Equal(t, room+kept, location)
			require.True(t, edge.OwnPath(location))
		}
	}
}
