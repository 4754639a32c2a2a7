package fetch_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/scripts/internal/fetch"
)

func TestCall(t *testing.T) {
	t.Parallel()
	var seen *http.Request
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw := make([]byte, 100)
		n, _ := r.Body.Read(raw)
		seen, body = r, string(raw[:n])
		switch r.URL.Path {
		case "/elsewhere":
			http.Redirect(w, r, "/", http.StatusSeeOther)
		case "/endless":
			_, _ = w.Write([]byte(strings.Repeat("x", 9<<20)))
		case "/busy":
			w.WriteHeader(http.StatusServiceUnavailable)
			_, _ = w.Write([]byte(`{"code":"OVERLOADED"}`))
		}
	}))
	defer server.Close()
	for _, c := range []struct {
		body        any
		sent, types string
	}{
		{nil, "", ""}, {url.Values{"a": {"b c"}}, "a=b+c", "application/x-www-form-urlencoded"}, {fetch.CSV("a,b"), "a,b", "text/csv"},
		{`{"a":1}`, `{"a":1}`, "application/json"}, {map[string]int{"a": 1}, `{"a":1}`, "application/json"},
	} {
		a, err := fetch.Call(t.Context(), nil, http.MethodPost, server.URL, c.body)
		require.NoError(t, err)
		require.True(t, a.OK())
		require.Equal(t, []string{c.sent, c.types}, []string{body, seen.Header.Get("Content-Type")})
	}
	a, err := fetch.Call(t.Context(), nil, http.MethodGet, server.URL+"/elsewhere", nil)
	require.NoError(t, err)
	require.Equal(t, http.StatusSeeOther, a.Status, "it is not followed")
	a, err = fetch.Call(t.Context(), nil, http.MethodGet, server.URL+"/busy", nil)
	require.NoError(t, err)
	require.True(t, a.Overloaded())
	require.Equal(t, "OVERLOADED", a.Code())
	_, err = fetch.Call(t.Context(), nil, http.MethodGet, server.URL+"/endless", nil)
	require.ErrorContains(t, err, "more than")
}
