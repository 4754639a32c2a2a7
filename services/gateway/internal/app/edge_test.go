package app_test

import (
	"encoding/base64"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/edge"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestRoutes keeps the whole table in one readable file: what is public is seen in a review.
func TestRoutes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var b strings.Builder
	for _, r := range w.gateway.Routes() {
		fmt.Fprintf(&b, "%-7s %-55s %-8s %-6s %s\n", r.Method, r.Pattern, r.Who, string(r.Event), r.ID)
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/routes.txt", []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/routes.txt")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), b.String()))
}

// credential is one way to come, with what it is good for.
type credential struct {
	name string
	// carried for requests about this event.
	carried func(w *world, event string) credentials
	session, staff, admin, visitor,
	tier1, entry bool
	// names: a token that is genuine but refused still tells the event.
	names bool
}

func walk() []credential {
	anon := func(w *world, event string, round int64, forEvent string) credentials {
		c, id := w.visitor()
		return c.with("Cookie", "urr-vwr-token="+w.sign(w.tier1, claims.NewTier1(forEvent, id, requestID, round, 7, time.Now())))
	}
	return []credential{
		{name: "nothing", carried: func(*world, string) credentials { return nil }},
		{name: "garbage", carried: func(*world, string) credentials {
			return credentials{"Authorization": "Bearer x.y.z", "Cookie": "urr-session=x; urr-anon=y; urr-vwr-token=z; urr-entry-token=w", "X-Queue-Entry-Token": "v"}
		}},
		{name: "visitor", visitor: true, carried: func(w *world, _ string) credentials { c, _ := w.visitor(); return c }},
		{name: "tier 1", visitor: true, tier1: true, carried: func(w *world, e string) credentials { return anon(w, e, round, e) }},
		{name: "tier 1 of another event", visitor: true, carried: func(w *world, e string) credentials { return anon(w, e, round, "other") }},
		{name: "tier 1 of another round", visitor: true, carried: func(w *world, e string) credentials { return anon(w, e, round-1, e) }},
		{name: "tier 1 of another visitor", visitor: true, carried: func(w *world, e string) credentials {
			c, _ := w.visitor()
			return c.with("Cookie", "urr-vwr-token="+w.tier1Token(e, "someone-else"))
		}},
		{name: "session", session: true, carried: func(w *world, _ string) credentials { return w.session(alice) }},
		{name: "session cookie", session: true, carried: func(w *world, _ string) credentials {
			return credentials{"Cookie": "urr-session=" + strings.TrimPrefix(w.session(alice)["Authorization"], "Bearer ")}
		}},
		{name: "expired session", carried: func(w *world, _ string) credentials {
			return credentials{"Authorization": "Bearer " + w.sign(w.sessions, claims.NewSession(alice, []string{"admin"}, time.Now().Add(-2*time.Hour), time.Now().Add(-time.Hour)))}
		}},
		{name: "staff", session: true, staff: true, carried: func(w *world, _ string) credentials { return w.session(alice, "staff") }},
		{name: "admin", session: true, staff: true, admin: true, carried: func(w *world, _ string) credentials { return w.session(alice, "admin") }},
		{name: "entry", session: true, entry: true, carried: func(w *world, e string) credentials { return w.buyer(e) }},
		{name: "entry cookie", session: true, entry: true, carried: func(w *world, e string) credentials {
			return w.session(alice).with("Cookie", "urr-entry-token="+w.entryToken(e, alice))
		}},
		{name: "entry without session", carried: func(w *world, e string) credentials {
			return credentials{"X-Queue-Entry-Token": w.entryToken(e, alice)}
		}},
		{name: "entry of another user", session: true, carried: func(w *world, e string) credentials {
			return w.session(mallory).with("X-Queue-Entry-Token", w.entryToken(e, alice))
		}},
		{name: "expired entry", session: true, carried: func(w *world, e string) credentials {
			past := time.Now().Add(-5 * time.Minute)
			return w.session(alice).with("X-Queue-Entry-Token", w.sign(w.entries, claims.NewEntry(e, alice, slot, epoch, time.Now().Add(time.Minute), past)))
		}},
		{name: "entry of the epoch before", session: true, names: true, carried: func(w *world, e string) credentials {
			return w.session(alice).with("X-Queue-Entry-Token", w.sign(w.entries, claims.NewEntry(e, alice, slot, epoch-1, time.Now().Add(time.Minute), time.Now())))
		}},
		{name: "entry and old tier 1", session: true, visitor: true, entry: true, carried: func(w *world, e string) credentials {
			c := anon(w, e, round-1, e)
			return w.buyer(e).with("Cookie", c["Cookie"])
		}},
	}
}

// TestMatrix walks every route with every credential, for an event without and one with an active waiting room.
func TestMatrix(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, r := range w.gateway.Routes() {
		for _, event := range []string{calm, busy} {
			for _, c := range walk() {
				t.Run(strings.Join([]string{r.ID, event, c.name}, "/"), func(t *testing.T) {
					if r.Who == edge.Admin {
						event = "third" // what operators do to it must not change the others' event
					}
					rec := w.do(r.Method, target(r, event), bodyFor(r, event), c.carried(w, event))
					status, code, redirect := expected(r, event, c)
					if status == 0 {
						require.NotContains(t, []int{301, 302, 303, 307, 308, 401, 403, 405, 500}, rec.Code, "%s", rec.Body)
						return
					}
					require.Equal(t, status, rec.Code, "%s", rec.Body)
					if status == http.StatusFound {
						require.Equal(t, redirect, rec.Header().Get("Location"))
						return
					}
					doc := problemOf(t, rec)
					require.Equal(t, code, doc["code"])
					if redirect != "" {
						require.Equal(t, redirect, doc["redirectTo"])
					}
				})
			}
		}
	}
}

// expected is DESIGN §3 once more, from the route's declaration: 0 means that the request passes.
func expected(r *edge.Route, event string, c credential) (status int, code, redirect string) {
	unauthenticated := "UNAUTHENTICATED"
	if strings.Contains(c.name, "expired session") || c.name == "garbage" {
		unauthenticated = "SESSION_INVALID"
	}
	refuse := func(code, to string) (int, string, string) {
		if r.Page {
			return http.StatusFound, "", to
		}
		return http.StatusForbidden, code, to
	}
	switch r.Who {
	case edge.Visitor:
		if !c.visitor && !r.Issues {
			return http.StatusUnauthorized, "VISITOR_REQUIRED", ""
		}
	case edge.User, edge.Staff, edge.Admin:
		if !c.session {
			return http.StatusUnauthorized, unauthenticated, ""
		}
		if r.Who == edge.Admin && !c.admin || r.Who == edge.Staff && !c.staff {
			return http.StatusForbidden, "ROLE_REQUIRED", ""
		}
	case edge.Public, edge.Entry:
	}
	switch {
	case r.Event == edge.None:
		return 0, "", ""
	case r.Event == edge.FromToken && !c.entry && !c.names:
		return refuse("QUEUE_TOKEN_REQUIRED", "/")
	case event == busy && !c.tier1 && !c.entry:
		return refuse("VWR_TOKEN_REQUIRED", "/vwr/"+event)
	case r.Who == edge.Entry && !c.entry:
		return refuse("QUEUE_TOKEN_REQUIRED", "/queue/"+event)
	}
	return 0, "", ""
}

// target fills the pattern's parameters.
func target(r *edge.Route, event string) string {
	segs := strings.Split(r.Pattern, "/")
	for i, s := range segs {
		switch {
		case s == "{event_id}":
			segs[i] = event
		case s == "{provider}":
			segs[i] = "sandbox"
		case s == "{file}":
			segs[i] = "none.js"
		case strings.HasPrefix(s, "{"):
			segs[i] = requestID
		}
	}
	return strings.Join(segs, "/")
}

// bodyFor is a valid body of every route that takes one.
func bodyFor(r *edge.Route, event string) string {
	sale := `{"title":"T","artist":"A","venue":"V","startsAt":"2030-01-01T10:00:00Z","salesOpenAt":"2029-01-01T10:00:00Z",
		"salesCloseAt":"2029-12-31T10:00:00Z","seating":"GENERAL","currency":"KRW","maxPerUser":4,"sections":[{"section":"A","price":1000,"capacity":10}]}`
	switch r.ID {
	case "auth.dev-login":
		return `{"userId":"alice"}`
	case "seats.reserve":
		return `{"eventId":"` + event + `","seatIds":["A-1-1"]}`
	case "reservations.best":
		return `{"eventId":"` + event + `","section":"A","quantity":2}`
	case "EventAdminService.CreateEvent", "EventAdminService.PutEvent":
		return sale
	case "QueueAdminService.SetThreshold":
		return `{"threshold":100}`
	case "PaymentService.Prepare":
		return `{"paymentType":"reservation","referenceId":"` + requestID + `"}`
	case "PaymentService.Confirm":
		return `{"orderId":"o-1","paymentKey":"ok-1","amount":55000}`
	}
	return ""
}

func encode(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }

func problemOf(t testing.TB, rec *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	require.Equal(t, "application/problem+json", rec.Header().Get("Content-Type"), "%d %s", rec.Code, rec.Body)
	var doc map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
	for _, member := range []string{"type", "title", "status", "detail", "instance", "code", "error", "requestId"} {
		require.Contains(t, doc, member)
	}
	require.NotEmpty(t, doc["requestId"])
	return doc
}

// TestPathTricks writes protected paths in other ways: each is the same route or none at all, never an open door.
func TestPathTricks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	guarded := []string{
		"/api/seats/calm", "/api//seats/calm", "/api/v1//seats//calm", "//api/v1/seats/calm", "/api/v1/seats/calm/",
		"/api/v1/%73eats/calm", "/api/v1/se%61ts/c%61lm", "/api/%76%31/seats/calm", "/%61pi/seats/calm",
		"/api/v1/../seats/calm", "/api/v1/./seats/calm", "/api/v1/queue/../seats/calm", "/vwr/../api/v1/seats/calm",
		"/api/v1/events/%2e%2e/seats/calm", "/vwr-api/..%2fapi/v1/seats/calm", "/api/v1/auth%2f..%2fseats/calm", "/queue/x/../../api/seats/calm",
		"/api/v1/queue/..//seats/calm?x=/api/v1/queue",
	}
	for _, path := range guarded {
		rec := w.do(http.MethodGet, path, "", nil)
		require.Equal(t, http.StatusForbidden, rec.Code, path)
		require.Equal(t, "QUEUE_TOKEN_REQUIRED", problemOf(t, rec)["code"], path)
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, path, "", w.buyer(calm)).Code, path)
	}
	for _, path := range []string{
		"/API/v1/seats/calm", "/api/v2/seats/calm", "/api/v1/v1/seats/calm", "/api/api/seats/calm", "/seats/calm", "/api/v1/seats/calm/x",
		"/api/v1/seats/calm;x", "/api/v1/seats/%2573eats", "/api/v1/%2573eats/calm", "/actuator", "/metrics", "/.git/config", "/api", "/api/v1", "/api/v1/admin",
		"/urr.ticket.v1.HoldService/HoldSeats", "/api/v1/seats", "/debug/pprof/",
	} {
		rec := w.do(http.MethodGet, path, "", w.session(alice, "admin"))
		require.Contains(t, []int{http.StatusNotFound, http.StatusBadRequest}, rec.Code, path)
	}
	for path, code := range map[string]string{
		"/api/v1/seats/ca%5clm": "INVALID_REQUEST", "/api/v1/seats/calm%00": "INVALID_REQUEST", "/api/v1/seats/%ff": "INVALID_UTF8",
		"/api/v1/seats/a%7Bb": "INVALID_ID", "/api/v1/seats/" + strings.Repeat("a", 65): "INVALID_ID", "/api/v1/my/tickets/42": "INVALID_ID",
		"/api/v1/my/tickets/" + strings.ToUpper(requestID): "INVALID_ID", "/api/v1/events/a:b": "INVALID_ID",
	} {
		rec := w.do(http.MethodGet, path, "", w.session(alice))
		require.Equal(t, http.StatusBadRequest, rec.Code, path)
		require.Equal(t, code, problemOf(t, rec)["code"], path)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rec := w.do(http.MethodPatch, "/api/v1/seats/calm", "", w.buyer(calm))
	require.Equal(t, http.StatusMethodNotAllowed, rec.Code)
	require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
	require.Equal(t, http.StatusForbidden, w.do(http.MethodHead, "/api/v1/seats/calm", "", nil).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodHead, "/api/v1/seats/calm", "", w.buyer(calm)).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodHead, "/api/v1/events", "", nil).Code)

	// The header by which some routers let a POST be another method means nothing here.
	rec = w.do(http.MethodPost, "/api/v1/my/tickets", "limit=1", w.session(alice).
		with("X-Http-Method-Override", "GET").with("Content-Type", "application/x-www-form-urlencoded"))
	require.Equal(t, http.StatusMethodNotAllowed, rec.Code)
}

// TestTokenForgery tries tokens that look right.
func TestTokenForgery(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := keys(t, "another-secret-of-at-least-32-bytes!")
	forged := func() *claims.Entry {
		return claims.NewEntry(calm, alice, slot, epoch, time.Now().Add(time.Minute), time.Now())
	}
	good := w.entryToken(calm, alice)
	head, rest, _ := strings.Cut(good, ".")
	payload, mac, _ := strings.Cut(rest, ".")
	for name, tok := range map[string]string{
		"another key":           w.sign(other, forged()),
		"the session's key":     w.sign(w.sessions, forged()),
		"the tier-1 key":        w.sign(w.tier1, forged()),
		"alg none":              encode(`{"alg":"none","typ":"JWT","kid":"1"}`) + "." + payload + ".",
		"alg HS512":             encode(`{"alg":"HS512","typ":"JWT","kid":"1"}`) + "." + payload + "." + mac,
		"no kid":                encode(`{"alg":"HS256","typ":"JWT"}`) + "." + payload + "." + mac,
		"unknown kid":           encode(`{"alg":"HS256","typ":"JWT","kid":"2"}`) + "." + payload + "." + mac,
		"changed event":         head + "." + encode(`{"aud":"entry","exp":4102444800,"sub":"calm","uid":"alice","jti":"x","epoch":1,"end":1}`) + "." + mac,
		"no signature":          head + "." + payload + ".",
		"cut":                   good[:len(good)-2],
		"a session as an entry": strings.TrimPrefix(w.session(alice)["Authorization"], "Bearer "),
		"another audience":      w.sign(w.entries, claims.NewSession(alice, nil, time.Now(), time.Now().Add(time.Hour))),
		"very long":             strings.Repeat("a", 5000),
	} {
		rec := w.do(http.MethodGet, "/api/v1/seats/calm", "", w.session(alice).with("X-Queue-Entry-Token", tok))
		require.Equal(t, http.StatusForbidden, rec.Code, name)
	}
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/seats/calm", "", w.session(alice).with("X-Queue-Entry-Token", good)).Code)

	// A bad header does not hide a good cookie; and the other way round.
	require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/api/v1/seats/calm", "",
		w.session(alice).with("X-Queue-Entry-Token", w.entryToken(busy, alice)).with("Cookie", "urr-entry-token="+good)).Code)

	admin := w.sign(other, claims.NewSession(alice, []string{"admin"}, time.Now(), time.Now().Add(time.Hour)))
	rec := w.do(http.MethodGet, "/api/v1/queue/admin/calm", "", credentials{"Authorization": "Bearer " + admin})
	require.Equal(t, "SESSION_INVALID", problemOf(t, rec)["code"])
}

// TestCDNHeader: the CDN may vouch for a tier-1 token's signature, and for nothing else.
func TestCDNHeader(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c, id := w.visitor()
	unsigned := func(round int64, event, uid string) credentials {
		k := keys(t, "another-secret-of-at-least-32-bytes!")
		return c.with("Cookie", "urr-vwr-token="+w.sign(k, claims.NewTier1(event, uid, requestID, round, 7, time.Now())))
	}
	page := func(c credentials) int { return w.do(http.MethodGet, "/events/busy", "", c).Code }
	passed := page(unsigned(round, busy, id).with("X-CloudFront-Verified", "cdn-secret"))
	require.NotEqual(t, http.StatusFound, passed)
	require.Equal(t, http.StatusFound, page(unsigned(round, busy, id).with("X-CloudFront-Verified", "wrong")))
	require.Equal(t, http.StatusFound, page(unsigned(round, busy, id)))
	require.Equal(t, http.StatusFound, page(unsigned(round, calm, id).with("X-CloudFront-Verified", "cdn-secret")))
	require.Equal(t, http.StatusFound, page(unsigned(round, busy, "someone").with("X-CloudFront-Verified", "cdn-secret")))
	require.Equal(t, http.StatusFound, page(unsigned(round-1, busy, id).with("X-CloudFront-Verified", "cdn-secret")))
	expired := c.with("Cookie", "urr-vwr-token="+w.sign(w.tier1, claims.NewTier1(busy, id, requestID, round, 7, time.Now().Add(-time.Hour))))
	require.Equal(t, http.StatusFound, page(expired.with("X-CloudFront-Verified", "cdn-secret")))
	// It never stands for an entry token.
	rec := w.do(http.MethodGet, "/api/v1/seats/calm", "", w.session(alice).with("X-CloudFront-Verified", "cdn-secret").
		with("X-Queue-Entry-Token", w.sign(keys(t, "another-secret-of-at-least-32-bytes!"), claims.NewEntry(calm, alice, slot, epoch, time.Now().Add(time.Minute), time.Now()))))
	require.Equal(t, http.StatusForbidden, rec.Code)

	off := newWorld(t, func(c *app.Config, _ *app.Services) { c.CloudFrontSecret = "" })
	for _, said := range []string{"", "cdn-secret", "true"} {
		require.Equal(t, http.StatusFound, off.do(http.MethodGet, "/events/busy", "", unsigned(round, busy, id).with("X-CloudFront-Verified", said)).Code)
	}
}

func TestPagesAndPrograms(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, accept := range []string{"text/html,application/xhtml+xml", "*/*", ""} {
		rec := w.do(http.MethodGet, "/events/calm/seats", "", credentials{"Accept": accept})
		require.Equal(t, http.StatusFound, rec.Code, accept)
		require.Equal(t, "/queue/calm", rec.Header().Get("Location"))
		require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	}
	rec := w.do(http.MethodGet, "/events/calm/book", "", credentials{"Accept": "application/json"})
	require.Equal(t, "/queue/calm", problemOf(t, rec)["redirectTo"])
	require.Equal(t, "Queue entry token required", problemOf(t, rec)["error"])
}

func TestEveryRouteIsPlacedOnce(t *testing.T) {
	t.Parallel()
	_, err := edge.NewTable(
		&edge.Route{ID: "a", Method: "GET", Pattern: "/x/{event_id}", Who: edge.Public},
		&edge.Route{ID: "b", Method: "GET", Pattern: "/x/{other_id}", Who: edge.Public})
	require.ErrorContains(t, err, "matches the same paths")
	for name, bad := range map[string]*edge.Route{
		"nobody":          {ID: "a", Method: "GET", Pattern: "/x"},
		"unknown who":     {ID: "a", Method: "GET", Pattern: "/x", Who: "everyone"},
		"entry, no event": {ID: "a", Method: "GET", Pattern: "/x", Who: edge.Entry},
		"no such param":   {ID: "a", Method: "GET", Pattern: "/x", Who: edge.Public, Event: edge.FromPath},
		"no message":      {ID: "a", Method: "POST", Pattern: "/x", Who: edge.Entry, Event: edge.FromBody},
		"token for all":   {ID: "a", Method: "GET", Pattern: "/x", Who: edge.User, Event: edge.FromToken},
		"wildcard":        {ID: "a", Method: "GET", Pattern: "/x/*", Who: edge.Public},
	} {
		_, err := edge.NewTable(bad)
		require.Error(t, err, name)
	}
	require.True(t, slices.ContainsFunc(edge.Handwritten(true), func(r *edge.Route) bool { return r.ID == "auth.dev-login" }))
	require.False(t, slices.ContainsFunc(edge.Handwritten(false), func(r *edge.Route) bool { return r.ID == "auth.dev-login" }))
}
