package web_test

import (
	"encoding/xml"
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/web"
)

// noEvent requests the page of an event that does not exist.
func noEvent(t *testing.T, p *web.Pages, method string, headers ...string) (*http.Response, bool) {
	t.Helper()
	r := httptest.NewRequest(method, "/events/typo", http.NoBody)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	done := p.ServeNoEvent(w, r)
	return w.Result(), done
}

// People get the page in their language with status 404. Programs get a problem document.
func TestPageOfUnknownEvent(t *testing.T) {
	t.Parallel()
	p, err := web.NewFrom(bundle(), web.Config{})
	require.NoError(t, err)
	catalogues, err := web.Catalogues()
	require.NoError(t, err)
	for lang, c := range catalogues {
		r, done := noEvent(t, p, http.MethodGet, "Accept", "text/html,*/*;q=0.8", "Accept-Language", lang)
		require.True(t, done)
		require.Equal(t, http.StatusNotFound, r.StatusCode)
		require.Contains(t, r.Header.Get("Content-Security-Policy"), "script-src 'self'")
		require.Equal(t, "private, no-cache", r.Header.Get("Cache-Control"), "the event may be created at any time")
		page := body(t, r)
		require.Contains(t, page, `<html lang="`+lang+`">`)
		require.Contains(t, page, "<h1>"+c["problem"]["noEventTitle"]+"</h1>")
		require.Contains(t, page, "<title>"+c["problem"]["noEventTitle"]+" · URR</title>")
		require.Contains(t, page, c["problem"]["noEvent"])
		require.Contains(t, page, c["problem"]["noEventHelp"])
		require.Contains(t, page, `<a class="button" href="/">`+c["common"]["toEvents"]+`</a>`)
		require.Contains(t, page, `src="/assets/problem-A.js"`, "the script of the frame is loaded")
	}
	r, done := noEvent(t, p, http.MethodHead, "Accept", "text/html")
	require.True(t, done)
	require.Equal(t, http.StatusNotFound, r.StatusCode)
	require.Empty(t, body(t, r))

	_, done = noEvent(t, p, http.MethodGet, "Accept", "application/json")
	require.False(t, done)
	unbuilt, err := web.NewFrom(fstest.MapFS{".keep": {}}, web.Config{})
	require.NoError(t, err)
	_, done = noEvent(t, unbuilt, http.MethodGet, "Accept", "text/html")
	require.False(t, done)
}

// The icon is a data URL, so that it needs no request.
func TestPagesHaveTheIcon(t *testing.T) {
	t.Parallel()
	link := regexp.MustCompile(`<link rel="icon" type="image/svg\+xml" href="(data:image/svg\+xml,[^"]+)">`)
	for _, files := range []fstest.MapFS{bundle(), {".keep": {}}} {
		h := serve(t, files, web.Config{})
		for _, path := range []string{"/", "/events/e1", "/login", "/my"} {
			found := link.FindStringSubmatch(html.UnescapeString(body(t, get(h, path))))
			require.NotEmpty(t, found, path)
			_, source, _ := strings.Cut(found[1], ",")
			picture, err := url.PathUnescape(source)
			require.NoError(t, err)
			var svg struct {
				XMLName xml.Name `xml:"http://www.w3.org/2000/svg svg"`
			}
			require.NoError(t, xml.Unmarshal([]byte(picture), &svg))
		}
	}
}

// allowed evaluates robots.txt like a crawler: the longest matching rule decides (RFC 9309 §2.2.2).
func allowed(robots, path string) bool {
	longest, allow := 0, true
	for line := range strings.Lines(robots) {
		name, rule, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if name != "Allow" && name != "Disallow" {
			continue
		}
		pattern := "^" + strings.ReplaceAll(regexp.QuoteMeta(rule), `\*`, ".*")
		if len(rule) > longest && regexp.MustCompile(pattern).MatchString(path) {
			longest, allow = len(rule), name == "Allow"
		}
	}
	return allow
}

// Crawlers may read only the pages of events and the files that these load.
func TestRobots(t *testing.T) {
	t.Parallel()
	for _, files := range []fstest.MapFS{bundle(), {".keep": {}}} {
		r := get(serve(t, files, web.Config{}), "/robots.txt")
		require.Equal(t, http.StatusOK, r.StatusCode)
		require.Equal(t, "text/plain; charset=utf-8", r.Header.Get("Content-Type"))
		require.Equal(t, "public, max-age=86400", r.Header.Get("Cache-Control"))
		robots := body(t, r)
		require.Contains(t, robots, "User-agent: *\n")
		for _, path := range []string{"/", "/events/demo", "/api/v1/events", "/api/v1/events/demo", "/assets/event-A.js", "/docs",
			"/promo/p1", "/draws/p1", "/api/v1/promotions", "/api/v1/promotions/p1", "/api/v1/draws/p1", "/api/v1/draws/p1/entries"} {
			require.True(t, allowed(robots, path), path)
		}
		for _, path := range []string{
			"/queue/demo", "/vwr/demo", "/checkout/r1", "/rewards/c1", "/my", "/transfers/t1", "/memberships/m1", "/login?returnTo=/my", "/events/demo/seats", "/events/demo/book",
			"/api/v1/promotions/p1/me", "/api/v1/requests/r1",
			"/api/v1/my/tickets", "/api/v1/stats/events/demo", "/vwr-api/vwr/status/demo",
		} {
			require.False(t, allowed(robots, path), path)
		}
	}
}

// seatWords matches words for seats in both languages, and 석 after a number.
var seatWords = regexp.MustCompile(`(?i)\bseats?\b|좌석|[}\d]석|자리`)

// Sentences about general admission do not mention seats. Those whose key is in assigned are shown
// only for assigned seats, or to operators who search by seat.
func TestGeneralAdmissionMentionsNoSeats(t *testing.T) {
	t.Parallel()
	assigned := []string{"common.seat", "event.enterHelp", "book.adjacent", "book.map", "orders.seat"}
	catalogues, err := web.Catalogues()
	require.NoError(t, err)
	for lang, c := range catalogues {
		for group, sentences := range c {
			if group == "seats" {
				continue // the page of the seat map
			}
			for key, text := range sentences {
				if !slices.Contains(assigned, group+"."+key) {
					require.NotRegexp(t, seatWords, text, "%s %s.%s", lang, group, key)
				}
			}
		}
	}
}

// The Korean pages call an event 공연, never 이벤트.
func TestKoreanTermForEvent(t *testing.T) {
	t.Parallel()
	catalogues, err := web.Catalogues()
	require.NoError(t, err)
	for group, sentences := range catalogues["ko"] {
		for key, text := range sentences {
			require.NotContains(t, text, "이벤트", "%s.%s", group, key)
		}
	}
}
