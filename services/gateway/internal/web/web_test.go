package web_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/language"
	"urr.guru/services/gateway/internal/web"
)

const (
	roomBody   = "<!doctype html><title>room</title>"
	scriptBody = "console.log('a script that is long enough to be compressed')"
)

// bundle is a small example of the bundler's output.
func bundle() fstest.MapFS {
	var pages []string
	for _, name := range append([]string{"problem"}, web.Names...) {
		pages = append(pages, `"`+name+`": {"module": "/assets/`+name+`-A.js", "preload": ["/assets/chunk-B.js"], "styles": ["/assets/style-C.css"]}`)
	}
	return fstest.MapFS{
		"manifest.json": {Data: []byte(`{"pages": {` + strings.Join(pages, ",") + `}, "clock": "/assets/clock-D.js",
			"pay": {"module": "/assets/toss-E.js", "styles": ["/assets/style-C.css"]},
			"waitingRoom": {"file": "vwr.html", "script": "sha256-S", "style": "sha256-T"}}`)},
		"vwr.html":              {Data: []byte(roomBody)},
		"assets/events-A.js":    {Data: []byte(scriptBody)},
		"assets/events-A.js.br": {Data: []byte("brotli")},
		"assets/events-A.js.gz": {Data: gzipped(scriptBody)},
		"assets/style-C.css":    {Data: []byte("body{}")},
		"assets/toss-E.js":      {Data: []byte("pay()")},
	}
}

func gzipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

func serve(t *testing.T, files fs.FS, cfg web.Config) http.Handler {
	t.Helper()
	p, err := web.NewFrom(files, cfg)
	require.NoError(t, err)
	mux := http.NewServeMux()
	for pattern, page := range map[string]http.Handler{
		"/{$}": p.Page("events"), "/events/{eventId}": p.Page("event"), "/vwr/{eventId}": p.WaitingRoom, "/queue/{eventId}": p.Page("queue"),
		"/events/{eventId}/seats": p.Page("seats"), "/events/{eventId}/book": p.Page("book"), "/checkout/{reservationId}": p.Page("checkout"),
		"/transfers": p.Page("transfers"), "/memberships": p.Page("memberships"), "/my": p.Page("my"), "/rewards/{eventId}": p.Page("campaign"), "/promo/{eventId}": p.Page("promo"), "/draws/{eventId}": p.Page("draw"),
		"/login": p.Page("login"), "/assets/{file}": p.Assets, "/robots.txt": p.Robots,
	} {
		mux.Handle(pattern, page)
	}
	return mux
}

func get(h http.Handler, path string, headers ...string) *http.Response {
	r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func body(t *testing.T, r *http.Response) string {
	t.Helper()
	b, err := io.ReadAll(r.Body)
	require.NoError(t, err)
	return string(b)
}

func TestPagesUseTheLanguageOfTheVisitor(t *testing.T) {
	t.Parallel()
	h := serve(t, bundle(), web.Config{DevLogin: true})
	paths := map[string]string{
		"/": "events", "/events/e1": "event", "/queue/e1": "queue", "/events/e1/seats": "seats", "/events/e1/book": "book",
		"/checkout/r1": "checkout", "/transfers": "transfers", "/memberships": "memberships", "/my": "my", "/login": "login", "/rewards/c1": "campaign",
	}
	catalogues, err := web.Catalogues()
	require.NoError(t, err)
	for path, name := range paths {
		for lang, c := range catalogues {
			r := get(h, path, "Accept-Language", lang)
			require.Equal(t, http.StatusOK, r.StatusCode, path)
			page := body(t, r)
			require.Contains(t, page, `<html lang="`+lang+`">`)
			require.Contains(t, page, "<title>"+c[name]["title"]+" · URR</title>")
			require.Contains(t, page, `src="/assets/`+name+`-A.js"`)
			require.Contains(t, page, `<link rel="modulepreload" href="/assets/chunk-B.js">`)
			require.Contains(t, page, `"devLogin":true`)
			require.Equal(t, "private, no-cache", r.Header.Get("Cache-Control"))
			require.NotContains(t, r.Header, "Set-Cookie")
		}
	}
}

func TestLanguage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ accept, cookie, want string }{
		{"", "", "en"},
		{"ko-KR,ko;q=0.9,en;q=0.8", "", "ko"},
		{"en-GB,ko;q=0.5", "", "en"},
		{"fr-FR,ko;q=0.1", "", "ko"},
		{"fr", "", "en"},
		{"ko", "en", "en"},
		{"en", "ko", "ko"},
		{"ko", "tlh", "ko"},
		{strings.Repeat("x-", 5000), "", "en"},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Header.Set("Accept-Language", c.accept)
		if c.cookie != "" {
			r.AddCookie(&http.Cookie{Name: language.Cookie, Value: c.cookie})
		}
		require.Equal(t, c.want, language.Of(r.Header), "%+v", c)
	}
}

// Pages without data of a visitor are shared if a CDN has sent the language. Other pages never are.
func TestSharedPages(t *testing.T) {
	t.Parallel()
	h := serve(t, bundle(), web.Config{})
	cookies := "urr-session=x; __Host-urr-session=x; urr-anon=y; urr-lang=en"
	for path, seconds := range map[string]string{
		"/": "60", "/promo/e1": "60", "/rewards/c1": "60", "/draws/e1": "60", "/queue/e1": "60", "/login": "60", "/events/e1": "1",
		"/events/e1/seats": "", "/events/e1/book": "", "/checkout/r1": "", "/my": "", "/transfers": "",
	} {
		first := get(h, path, language.CDNHeader, "ko")
		page := body(t, first)
		require.Contains(t, page, `<html lang="ko">`, path)
		again := get(h, path, language.CDNHeader, "ko", "Cookie", cookies, "Accept-Language", "en")
		require.Equal(t, page, body(t, again), "%s is the same for everybody", path)
		require.Equal(t, first.Header, again.Header)
		want := "public, max-age=0, s-maxage=" + seconds
		if seconds == "" {
			want = "private, no-cache"
		} else {
			require.Equal(t, []string{language.CDNHeader, "Accept-Encoding"}, first.Header.Values("Vary"))
		}
		require.Equal(t, want, first.Header.Get("Cache-Control"), path)
		require.NotContains(t, first.Header, "Set-Cookie")
		for _, headers := range [][]string{{}, {language.CDNHeader, "tlh"}, {"Cookie", cookies}} {
			alone := get(h, path, headers...)
			require.Equal(t, "private, no-cache", alone.Header.Get("Cache-Control"), "%s: the language is not in the key of a cache", path)
			require.Contains(t, alone.Header.Get("Vary"), "Cookie")
		}
	}
}

// inline matches what the policy blocks: scripts with a body, style elements, and style and event
// attributes.
var inline = regexp.MustCompile(`<script>|<script [^>]*type="module"[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=`)

func TestPolicyAllowsSameOriginOnly(t *testing.T) {
	t.Parallel()
	h := serve(t, bundle(), web.Config{})
	for _, path := range []string{"/", "/queue/e1", "/login"} {
		r := get(h, path)
		policy := r.Header.Get("Content-Security-Policy")
		require.Contains(t, policy, "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'")
		require.Contains(t, policy, "frame-ancestors 'none'")
		require.NotContains(t, policy, "unsafe")
		require.NotContains(t, policy, "blob:")
		require.NotContains(t, policy, "upgrade-insecure-requests")
		require.Equal(t, "nosniff", r.Header.Get("X-Content-Type-Options"))
		require.NotRegexp(t, inline, body(t, r))
	}
	secure := serve(t, bundle(), web.Config{Secure: true})
	require.Contains(t, get(secure, "/").Header.Get("Content-Security-Policy"), "; upgrade-insecure-requests")
	require.Contains(t, get(secure, "/vwr/e1").Header.Get("Content-Security-Policy"), "; upgrade-insecure-requests")
}

func TestWaitingRoomIsTheSameForEverybody(t *testing.T) {
	t.Parallel()
	h := serve(t, bundle(), web.Config{})
	first := get(h, "/vwr/e1", "Accept-Language", "ko", "Cookie", "urr-session"+"=x")
	other := get(h, "/vwr/e2", "Accept-Language", "en")
	require.Equal(t, roomBody, body(t, first))
	require.Equal(t, roomBody, body(t, other))
	require.Equal(t, first.Header.Get("ETag"), other.Header.Get("ETag"))
	require.Contains(t, first.Header.Get("Cache-Control"), "public")
	require.Contains(t, first.Header.Get("Cache-Control"), "s-maxage=")
	require.Equal(t, []string{"Accept-Encoding"}, first.Header.Values("Vary"), "a cache keeps one response per coding")
	require.Empty(t, first.Header.Values("Set-Cookie"))
	policy := first.Header.Get("Content-Security-Policy")
	require.Contains(t, policy, "script-src 'sha256-S'; style-src 'sha256-T'")
	require.Contains(t, policy, "worker-src blob:")
	require.NotContains(t, policy, "unsafe")
}

func TestAssets(t *testing.T) {
	t.Parallel()
	h := serve(t, bundle(), web.Config{})
	for _, c := range []struct{ accept, coding, body string }{
		{"gzip, deflate, br", "br", "brotli"},
		{"gzip", "gzip", string(gzipped(scriptBody))},
		{"br;q=0, gzip;q=0.5", "gzip", string(gzipped(scriptBody))},
		{"*", "br", "brotli"},
		{"*;q=0", "", scriptBody},
		{"", "", scriptBody},
		{"GZIP", "gzip", string(gzipped(scriptBody))},
	} {
		r := get(h, "/assets/events-A.js", "Accept-Encoding", c.accept)
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Equal(t, c.coding, r.Header.Get("Content-Encoding"), c.accept)
		require.Equal(t, c.body, body(t, r), c.accept)
		require.Equal(t, int64(len(c.body)), r.ContentLength)
		require.Equal(t, "public, max-age=31536000, immutable", r.Header.Get("Cache-Control"))
		require.Equal(t, "text/javascript; charset=utf-8", r.Header.Get("Content-Type"))
		require.Equal(t, "Accept-Encoding", r.Header.Get("Vary"))
	}
	missing := get(h, "/assets/events-OLD.js")
	require.Equal(t, http.StatusNotFound, missing.StatusCode)
	require.Equal(t, "no-store", missing.Header.Get("Cache-Control"))
	require.Equal(t, http.StatusNotFound, get(h, "/assets/events-A.js.br").StatusCode, "compressed files have no URL")
}

func TestConditionalRequests(t *testing.T) {
	t.Parallel()
	h := serve(t, bundle(), web.Config{})
	for _, path := range []string{"/", "/vwr/e1", "/assets/events-A.js"} {
		for _, coding := range []string{"", "gzip"} {
			tag := get(h, path, "Accept-Encoding", coding).Header.Get("ETag")
			require.NotEmpty(t, tag)
			for _, header := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
				r := get(h, path, "Accept-Encoding", coding, "If-None-Match", header)
				require.Equal(t, http.StatusNotModified, r.StatusCode, "%s %s", path, header)
				require.Empty(t, body(t, r))
			}
			require.Equal(t, http.StatusOK, get(h, path, "Accept-Encoding", coding, "If-None-Match", `"x"`).StatusCode)
		}
	}
	plain, zipped := get(h, "/").Header.Get("ETag"), get(h, "/", "Accept-Encoding", "gzip").Header.Get("ETag")
	require.NotEqual(t, plain, zipped, "each coding is a separate representation")
}

func TestMethodsOfPages(t *testing.T) {
	t.Parallel()
	p, err := web.NewFrom(bundle(), web.Config{})
	require.NoError(t, err)
	for _, method := range []string{http.MethodHead, http.MethodPost} {
		w := httptest.NewRecorder()
		p.Page("events").ServeHTTP(w, httptest.NewRequest(method, "/", http.NoBody))
		if method == http.MethodHead {
			require.Equal(t, http.StatusOK, w.Code)
			require.Zero(t, w.Body.Len())
			require.NotEqual(t, "0", w.Header().Get("Content-Length"))
			continue
		}
		require.Equal(t, http.StatusMethodNotAllowed, w.Code)
		require.Equal(t, "GET, HEAD", w.Header().Get("Allow"))
	}
}

func TestUnbuiltPagesExplainTheBuild(t *testing.T) {
	t.Parallel()
	h := serve(t, fstest.MapFS{".keep": {}}, web.Config{})
	for _, path := range []string{"/", "/vwr/e1", "/queue/e1"} {
		r := get(h, path, "Accept-Language", "ko")
		require.Equal(t, http.StatusServiceUnavailable, r.StatusCode)
		page := body(t, r)
		require.Contains(t, page, "go run ./scripts/cmd/web")
		require.Contains(t, page, `lang="ko"`)
	}
	require.Equal(t, http.StatusNotFound, get(h, "/assets/x.js").StatusCode)
}

func TestIncompleteBundleIsRefused(t *testing.T) {
	t.Parallel()
	for name, corrupt := range map[string]func(fstest.MapFS){
		"a page": func(m fstest.MapFS) {
			m["manifest.json"].Data = bytes.Replace(m["manifest.json"].Data, []byte(`"seats"`), []byte(`"seat"`), 1)
		},
		"the room": func(m fstest.MapFS) { delete(m, "vwr.html") },
		"a hash": func(m fstest.MapFS) {
			m["manifest.json"].Data = bytes.Replace(m["manifest.json"].Data, []byte("sha256-S"), nil, 1)
		},
		"the page of payments": func(m fstest.MapFS) {
			m["manifest.json"].Data = bytes.Replace(m["manifest.json"].Data, []byte(`"pay"`), []byte(`"paid"`), 1)
		},
		"JSON":   func(m fstest.MapFS) { m["manifest.json"].Data = []byte("{") },
		"a type": func(m fstest.MapFS) { m["assets/logo.exe"] = &fstest.MapFile{} },
	} {
		files := bundle()
		corrupt(files)
		_, err := web.NewFrom(files, web.Config{Pay: payConfig})
		require.Error(t, err, name)
	}
}

func TestCataloguesMatch(t *testing.T) {
	t.Parallel()
	all, err := web.Catalogues()
	require.NoError(t, err)
	placeholder := regexp.MustCompile(`\{\w+\}`)
	placeholders := func(text string) map[string]bool {
		found := map[string]bool{}
		for _, p := range placeholder.FindAllString(text, -1) {
			found[p] = true
		}
		return found
	}
	en, ko := all["en"], all["ko"]
	require.Len(t, ko, len(en))
	for group, sentences := range en {
		require.Len(t, ko[group], len(sentences), group)
		for key, text := range sentences {
			require.NotEmpty(t, ko[group][key], "%s.%s", group, key)
			require.Equal(t, placeholders(text), placeholders(ko[group][key]), "%s.%s", group, key)
		}
	}
}

func TestErrorPagesAreForPeopleOnly(t *testing.T) { //nolint:paralleltest // counts allocations
	p, err := web.NewFrom(bundle(), web.Config{})
	require.NoError(t, err)
	refuse := func(path string, status int, headers ...string) (*http.Response, bool) {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		done := p.ServeRefusal(w, r, status, "A <sentence>.", "req-7")
		return w.Result(), done
	}
	r, done := refuse("/nowhere", http.StatusNotFound, "Accept", "text/html,*/*", "Accept-Language", "ko")
	require.True(t, done)
	require.Equal(t, http.StatusNotFound, r.StatusCode)
	require.Contains(t, r.Header.Get("Content-Security-Policy"), "script-src 'self'")
	page := body(t, r)
	require.Contains(t, page, `<html lang="ko">`)
	require.Contains(t, page, "A &lt;sentence&gt;.")
	require.NotContains(t, page, "req-7", "client errors need no reference")

	r, _ = refuse("/my", http.StatusServiceUnavailable, "Accept", "text/html")
	require.Contains(t, body(t, r), "Reference req-7")

	_, done = refuse("/api/v1/payments/return/sandbox", http.StatusServiceUnavailable, "Accept", "text/html,*/*")
	require.True(t, done, "a provider's page sent the buyer there")
	_, done = refuse("/api/v1/payments/return/sandbox", http.StatusServiceUnavailable, "Accept", "application/json")
	require.False(t, done, "a page asks for the state")

	navigation := httptest.NewRequest(http.MethodGet, "/nowhere", http.NoBody)
	navigation.Header.Set("Accept", "text/html")
	allocated := testing.AllocsPerRun(100, func() { p.ServeRefusal(httptest.NewRecorder(), navigation, http.StatusNotFound, "A sentence.", "") })
	require.Less(t, allocated, 60.0, "the page is not rendered per request")

	for path, accept := range map[string]string{"/nowhere": "application/json", "/": "*/*", "/api/v1/events": "text/html", "/vwr-api/vwr/x": "text/html", "/assets/x": "text/html"} {
		_, done := refuse(path, http.StatusNotFound, "Accept", accept)
		require.False(t, done, "%s %s", path, accept)
	}
	unbuilt, err := web.NewFrom(fstest.MapFS{".keep": {}}, web.Config{})
	require.NoError(t, err)
	require.False(t, unbuilt.ServeRefusal(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", http.NoBody), 404, "", ""))
}
