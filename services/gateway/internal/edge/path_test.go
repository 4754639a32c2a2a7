package edge_test

import (
	"encoding/json"
	"net/url"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/gateway/internal/edge"
)

func TestCleanPath(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"/": "/", "": "/", "//": "/", "/api": "/api/v1", "/api/": "/api/v1", "/api/v1": "/api/v1", "/api/v1/": "/api/v1",
		"/api/seats/x": "/api/v1/seats/x", "/api/v1/seats/x": "/api/v1/seats/x", "/api/v10/x": "/api/v1/v10/x", "/apis/x": "/apis/x",
		"/api//seats": "/api/v1/seats", "/a/./b/../c": "/a/c", "/../../api/x": "/api/v1/x", "/api/v1/../x": "/api/v1/x", "/events/x/": "/events/x",
		"/api/v1/./seats": "/api/v1/seats", "api/seats": "/api/v1/seats", "/한글": "/한글", "/vwr/../api/seats": "/api/v1/seats", "/.well-known/x": "/.well-known/x",
	} {
		got, err := edge.CleanPath(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for in, want := range map[string]*errs.Error{
		"/a\x00b": errs.ErrInvalidRequest, "/a\nb": errs.ErrInvalidRequest, `/a\b`: errs.ErrInvalidRequest, "/a\x7fb": errs.ErrInvalidRequest,
		"/\xff": errs.ErrInvalidUTF8,
	} {
		_, err := edge.CleanPath(in)
		require.ErrorIs(t, err, want, "%q", in)
	}
}

// FuzzCleanPath checks for any input that the result is clean and that cleaning it again changes
// nothing.
func FuzzCleanPath(f *testing.F) {
	for _, s := range []string{"/api//seats/%2e%2e/x", "/api/v1/../seats", "/%61pi/x", "//", "/api/v1", "/a/%2F/b", "/vwr/..%2fapi"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := url.ParseRequestURI(raw)
		if err != nil {
			return
		}
		got, err := edge.CleanPath(u.Path)
		if err != nil {
			return
		}
		require.Equal(t, path.Clean(got), got)
		require.True(t, strings.HasPrefix(got, "/"))
		require.False(t, strings.HasPrefix(got, "/api") && got != "/api/v1" && !strings.HasPrefix(got, "/api/v1/") && (got == "/api" || strings.HasPrefix(got, "/api/")), got)
		again, err := edge.CleanPath(got)
		require.NoError(t, err)
		require.Equal(t, got, again)
	})
}

func TestLiteralBeforeParameter(t *testing.T) {
	t.Parallel()
	table, err := edge.NewTable(
		&edge.Route{ID: "param", Method: "GET", Pattern: "/s/{event_id}", Access: edge.Public},
		&edge.Route{ID: "literal", Method: "POST", Pattern: "/s/reserve", Access: edge.Public},
		&edge.Route{ID: "deep", Method: "GET", Pattern: "/s/{event_id}/x/{file}", Access: edge.Public},
		&edge.Route{ID: "other", Method: "GET", Pattern: "/s/reserve/y", Access: edge.Public},
		&edge.Route{ID: "event", Method: "GET", Pattern: "/events/{event_id}", Access: edge.Public, Page: true},
		&edge.Route{ID: "room", Method: "GET", Pattern: "/vwr/{event_id}", Access: edge.Public, Page: true},
	)
	require.NoError(t, err)
	for _, c := range []struct{ method, path, id, event, file string }{
		{"GET", "/s/reserve", "param", "reserve", ""}, {"POST", "/s/reserve", "literal", "", ""}, {"HEAD", "/s/a", "param", "a", ""},
		{"GET", "/s/reserve/x/f.js", "deep", "reserve", "f.js"}, {"GET", "/s/reserve/y", "other", "", ""},
	} {
		m, err := table.Match(c.method, c.path)
		require.NoError(t, err, c.path)
		require.Equal(t, c.id, m.Route.ID)
		require.Equal(t, c.event, m.Param("event_id"))
		require.Equal(t, c.file, m.Param("file"))
	}
	for _, c := range []struct {
		method, path string
		want         *errs.Error
	}{
		{"GET", "/", errs.ErrNotFound}, {"GET", "/s", errs.ErrNotFound}, {"GET", "/s/", errs.ErrNotFound}, {"GET", "/s/a/x", errs.ErrNotFound},
		{"GET", "", errs.ErrNotFound}, {"GET", "*", errs.ErrNotFound}, {"PUT", "/s/a", errs.ErrMethodNotAllowed}, {"DELETE", "/s/reserve", errs.ErrMethodNotAllowed},
		{"GET", "/s/a.b", errs.ErrInvalidID}, {"GET", "/events/a.b", errs.ErrEventNotFound}, {"GET", "/vwr/a.b", errs.ErrNotFound},
	} {
		_, err := table.Match(c.method, c.path)
		require.ErrorIs(t, err, c.want, c.path)
	}
	_, err = table.Match("GET", "/s/a.b")
	require.Equal(t, "eventId", errs.From(err).Fields[0].Path, "named as in the API")
	_, err = table.Match("DELETE", "/s/reserve")
	require.Equal(t, "GET, POST, HEAD", errs.From(err).Metadata["allow"])
}

// The test of the pages' ownPath uses the same cases (web/test/own-path.test.ts).
func TestOwnPath(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile("../../web/test/return-paths.json")
	require.NoError(t, err)
	var cases []struct {
		Path string `json:"path"`
		Own  bool   `json:"own"`
		Why  string `json:"why"`
	}
	require.NoError(t, json.Unmarshal(raw, &cases))
	require.NotEmpty(t, cases)
	for _, c := range cases {
		require.Equal(t, c.Own, edge.OwnPath(c.Path), "%q %s", c.Path, c.Why)
	}
}
