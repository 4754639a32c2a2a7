package pages_test

import (
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// through gives an address in front of the platform, at which a test answers some requests itself: interrupt returns
// true for those that it has answered.
func through(t *testing.T, interrupt func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(platformURL)
	require.NoError(t, err)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		// The browser's own host, or its requests would seem to come from another site.
		r.Out.Host = r.In.Host
	}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !interrupt(w, r) {
			proxy.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// refuse answers with a problem document.
func refuse(w http.ResponseWriter, status int, body string) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(body))
}

// holdingBack gives an address in front of the platform at which, once a payment was sent, requests whose path contains `path` wait for
// the returned function.
func holdingBack(t *testing.T, path string) (base string, release func()) {
	t.Helper()
	var sent atomic.Bool
	gate := make(chan struct{})
	release = sync.OnceFunc(func() { close(gate) })
	base = through(t, func(_ http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.HasSuffix(r.URL.Path, "/payments/confirm"):
			sent.Store(true)
		case strings.Contains(r.URL.Path, path) && sent.Load():
			<-gate
		}
		return false
	})
	t.Cleanup(release) // before the server is closed, which waits for its requests
	return base, release
}

// losing gives an address in front of the platform that passes requests on, and closes the connection instead of
// answering those that `lose` picks.
func losing(t *testing.T, lose func(r *http.Request) bool) string {
	t.Helper()
	target, err := url.Parse(platformURL)
	require.NoError(t, err)
	return through(t, func(w http.ResponseWriter, r *http.Request) bool {
		if !lose(r) {
			return false
		}
		proxy := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
			p.SetURL(target)
			p.Out.Host = p.In.Host
		}}
		proxy.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})
}
