package app_test

import (
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
	"urr.guru/pkg/token"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/edge"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The golden file contains the whole table of routes, so that reviewers see what is public.
func TestRoutes(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	var b strings.Builder
	for _, r := range w.gateway.Routes() {
		fmt.Fprintf(&b, "%-7s %-55s %-8s %-6s %s%s%s\n", r.Method, r.Pattern, r.Access, string(r.Event), r.ID, act(r), cost(t, r))
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/routes.txt", []byte(b.String()), 0o600))
	}
	want, err := os.ReadFile("testdata/routes.txt")
	require.NoError(t, err)
	require.Empty(t, cmp.Diff(string(want), b.String()))
}

// act returns the mark of an operator's act in a route's line: "stops" if it does not need Kafka.
// Other routes may be marked as costly.
func act(r *edge.Route) string {
	switch {
	case r.ServedWithoutKafka:
		return "  act, stops"
	case r.Audited():
		return "  act"
	case r.Costly:
		return "  costly"
	default:
		return ""
	}
}

// cost returns the cost of a read that needs no session, and which rate limit it has. Each must
// declare it.
func cost(t *testing.T, r *edge.Route) string {
	t.Helper()
	if r.Mutates() || r.Page || r.Access != edge.Public && r.Access != edge.Visitor {
		require.Empty(t, r.Cost, r.ID)
		return ""
	}
	require.NotEmpty(t, r.Cost.Reads, "%s does not say in routeCosts what it costs", r.ID)
	cached := r.Cost.Cached
	if cached == "" {
		cached = "no"
	}
	return fmt.Sprintf("  [%s; cached: %s; limit: %s]", r.Cost.Reads, cached, r.Limit())
}

// credential is a set of credentials, with what they give access to.
type credential struct {
	name string
	// headers returns the credentials for a request about an event.
	headers func(w *fixture, event string) credentials
	session, staff, admin, visitor,
	tier1, entry bool
	// namesEvent: the token is genuine but refused. The event is still known from it.
	namesEvent bool
	// invalid: the session is invalid, not absent.
	invalid bool
	// otherEvent: the entry token is for another event.
	otherEvent bool
}

func allCredentials() []credential { return slices.Concat(visitors(), sessions(), entries()) }

// tier1Credentials returns the cookies of a visitor with a tier-1 token.
func tier1Credentials(w *fixture, k token.KeySet, round int64, forEvent string, at time.Time) credentials {
	c, id := w.visitor()
	return c.with("Cookie", "urr-vwr-token="+w.sign(k, claims.NewTier1(forEvent, id, requestID, round, 7, at)))
}

// visitors are credentials without a session.
func visitors() []credential {
	return []credential{
		{name: "nothing", headers: func(*fixture, string) credentials { return nil }},
		{name: "garbage", invalid: true, headers: func(*fixture, string) credentials {
			return credentials{"Authorization": "Bearer x.y.z", "Cookie": "urr-session=x; urr-anon=y; urr-vwr-token=z; urr-entry-token=w", "X-Queue-Entry-Token": "v"}
		}},
		{name: "visitor", visitor: true, headers: func(w *fixture, _ string) credentials { c, _ := w.visitor(); return c }},
		{name: "tier 1", visitor: true, tier1: true, headers: func(w *fixture, e string) credentials { return tier1Credentials(w, w.tier1, round, e, w.now()) }},
		{name: "tier 1 of another event", visitor: true, headers: func(w *fixture, _ string) credentials {
			return tier1Credentials(w, w.tier1, round, "other", w.now())
		}},
		{name: "tier 1 of another round", visitor: true, headers: func(w *fixture, e string) credentials { return tier1Credentials(w, w.tier1, round-1, e, w.now()) }},
		{name: "expired tier 1", visitor: true, headers: func(w *fixture, e string) credentials {
			return tier1Credentials(w, w.tier1, round, e, w.now().Add(-claims.Tier1Life))
		}},
		{name: "tier 1 by another key", visitor: true, headers: func(w *fixture, e string) credentials {
			return tier1Credentials(w, tokentest.KeySet(w.t, foreignSecret), round, e, w.now())
		}},
		{name: "visitor by another key", headers: func(w *fixture, _ string) credentials {
			return credentials{"Cookie": "urr-anon=" + claims.NewAnon(w.now()).Seal(tokentest.KeySet(w.t, foreignSecret).Derive(claims.LabelAnon))}
		}},
		{name: "tier 1 of another visitor", visitor: true, headers: func(w *fixture, e string) credentials {
			c, _ := w.visitor()
			return c.with("Cookie", "urr-vwr-token="+w.tier1Token(e, "someone-else"))
		}},
	}
}

// sessions are credentials with a valid or invalid session.
func sessions() []credential {
	return []credential{
		{name: "session", session: true, headers: func(w *fixture, _ string) credentials { return w.session(alice) }},
		{name: "session cookie", session: true, headers: func(w *fixture, _ string) credentials {
			return credentials{"Cookie": "urr-session=" + strings.TrimPrefix(w.session(alice)["Authorization"], "Bearer ")}
		}},
		{name: "expired session", invalid: true, headers: func(w *fixture, _ string) credentials {
			return credentials{"Authorization": "Bearer " + w.sign(w.sessions, claims.NewSession(alice, []string{"admin"}, w.now().Add(-2*time.Hour), w.now().Add(-time.Hour)))}
		}},
		{name: "session by another key", invalid: true, headers: func(w *fixture, e string) credentials {
			forged := w.sign(tokentest.KeySet(w.t, foreignSecret), claims.NewSession(alice, []string{"admin"}, w.now(), w.now().Add(time.Hour)))
			return credentials{"Authorization": "Bearer " + forged, "X-Queue-Entry-Token": w.entryToken(e, alice)}
		}},
		{name: "staff", session: true, staff: true, headers: func(w *fixture, _ string) credentials { return w.session(alice, "staff") }},
		{name: "admin", session: true, staff: true, admin: true, headers: func(w *fixture, _ string) credentials { return w.session(alice, "admin") }},
	}
}

// entries are credentials with a valid or invalid entry token.
func entries() []credential {
	return []credential{
		{name: "entry", session: true, entry: true, headers: func(w *fixture, e string) credentials { return w.buyer(e) }},
		{name: "entry cookie", session: true, entry: true, headers: func(w *fixture, e string) credentials {
			return w.session(alice).with("Cookie", "urr-entry-token="+w.entryToken(e, alice))
		}},
		{name: "entry without session", headers: func(w *fixture, e string) credentials {
			return credentials{"X-Queue-Entry-Token": w.entryToken(e, alice)}
		}},
		{name: "entry of another user", session: true, headers: func(w *fixture, e string) credentials {
			return w.session(mallory).with("X-Queue-Entry-Token", w.entryToken(e, alice))
		}},
		{name: "expired entry", session: true, headers: func(w *fixture, e string) credentials {
			past := w.now().Add(-claims.EntryLife)
			return w.session(alice).with("X-Queue-Entry-Token", w.sign(w.entries, claims.NewEntry(e, alice, slot, epoch, w.now().Add(time.Minute), past)))
		}},
		{name: "entry by another key", session: true, headers: func(w *fixture, e string) credentials {
			forged := w.sign(tokentest.KeySet(w.t, foreignSecret), claims.NewEntry(e, alice, slot, epoch, w.now().Add(time.Minute), w.now()))
			return w.session(alice).with("X-Queue-Entry-Token", forged)
		}},
		{name: "entry of another event", session: true, otherEvent: true, headers: func(w *fixture, _ string) credentials { return w.buyer("other") }},
		{name: "entry of the epoch before", session: true, namesEvent: true, headers: func(w *fixture, e string) credentials {
			return w.session(alice).with("X-Queue-Entry-Token", w.sign(w.entries, claims.NewEntry(e, alice, slot, epoch-1, w.now().Add(time.Minute), w.now())))
		}},
		{name: "entry and old tier 1", session: true, visitor: true, entry: true, headers: func(w *fixture, e string) credentials {
			c := tier1Credentials(w, w.tier1, round-1, e, w.now())
			return w.buyer(e).with("Cookie", c["Cookie"])
		}},
	}
}

// Every route is called with every credential, for an event without and one with an active waiting
// room.
func TestMatrix(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, r := range w.gateway.Routes() {
		t.Run(r.ID, func(t *testing.T) {
			t.Parallel()
			events := []string{calm, busy}
			if r.Access == edge.Admin {
				events = []string{"third"} // admin routes change the event
			}
			for _, event := range events {
				for _, c := range allCredentials() {
					t.Run(event+"/"+c.name, func(t *testing.T) { c.try(t, w, r, event) })
				}
			}
		})
	}
}

// try sends a request with the credential to a route, and checks the outcome.
func (c credential) try(t *testing.T, w *fixture, r *edge.Route, event string) {
	t.Helper()
	rec := w.do(r.Method, target(r, event), bodyFor(r, event), c.headers(w, event))
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
}

// expected derives the outcome from the declaration of the route, independently of the code under
// test. Status 0 means that the request is served.
func expected(r *edge.Route, event string, c credential) (status int, code, redirect string) {
	unauthenticated := "UNAUTHENTICATED"
	if c.invalid {
		unauthenticated = "SESSION_INVALID"
	}
	refuse := func(code, to string) (int, string, string) {
		if r.Page {
			return http.StatusFound, "", to
		}
		return http.StatusForbidden, code, to
	}
	switch r.Access {
	case edge.Visitor:
		if !c.visitor && !r.IssuesVisitorID {
			return http.StatusUnauthorized, "VISITOR_REQUIRED", ""
		}
	case edge.User, edge.Staff, edge.Admin:
		if !c.session {
			return http.StatusUnauthorized, unauthenticated, ""
		}
		if r.Access == edge.Admin && !c.admin || r.Access == edge.Staff && !c.staff {
			return http.StatusForbidden, "ROLE_REQUIRED", ""
		}
	case edge.Public, edge.Entry:
	}
	switch {
	case r.Event == edge.None, r.Event == edge.FromToken && c.otherEvent:
		return 0, "", ""
	case r.Event == edge.FromToken && !c.session:
		return http.StatusUnauthorized, unauthenticated, ""
	case r.Event == edge.FromToken && !c.entry && !c.namesEvent:
		return refuse("QUEUE_TOKEN_REQUIRED", "/")
	case event == busy && !c.tier1 && !c.entry:
		return refuse("VWR_TOKEN_REQUIRED", "/vwr/"+event)
	case r.Access == edge.Entry && !c.session && !r.Page:
		return http.StatusUnauthorized, unauthenticated, ""
	case r.Access == edge.Entry && !c.entry:
		return refuse("QUEUE_TOKEN_REQUIRED", "/queue/"+event)
	}
	return 0, "", ""
}

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

// Variants of protected paths reach the same route or none, never a route without checks.
func TestPathVariantsCannotBypassChecks(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	guarded := []string{
		"/api/seats/calm", "/api//seats/calm", "/api/v1//seats//calm", "//api/v1/seats/calm", "/api/v1/seats/calm/",
		"/api/v1/%73eats/calm", "/api/v1/se%61ts/c%61lm", "/api/%76%31/seats/calm", "/%61pi/seats/calm",
		"/api/v1/../seats/calm", "/api/v1/./seats/calm", "/api/v1/queue/../seats/calm", "/vwr/../api/v1/seats/calm",
		"/api/v1/events/%2e%2e/seats/calm", "/vwr-api/..%2fapi/v1/seats/calm", "/api/v1/auth%2f..%2fseats/calm", "/queue/x/../../api/seats/calm",
		"/api/v1/queue/..//seats/calm?x=/api/v1/queue",
	}
	for _, path := range guarded {
		require.Equal(t, http.StatusUnauthorized, w.do(http.MethodGet, path, "", nil).Code, path)
		rec := w.do(http.MethodGet, path, "", w.session(alice))
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
}

func TestMethods(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	rec := w.do(http.MethodPatch, "/api/v1/seats/calm", "", w.buyer(calm))
	require.Equal(t, http.StatusMethodNotAllowed, rec.Code)
	require.Equal(t, "GET, HEAD", rec.Header().Get("Allow"))
	require.Equal(t, http.StatusForbidden, w.do(http.MethodHead, "/api/v1/seats/calm", "", w.session(alice)).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodHead, "/api/v1/seats/calm", "", w.buyer(calm)).Code)
	require.Equal(t, http.StatusOK, w.do(http.MethodHead, "/api/v1/events", "", nil).Code)

	// X-Http-Method-Override, by which some routers change the method, is ignored.
	rec = w.do(http.MethodPost, "/api/v1/my/tickets", "limit=1", w.session(alice).
		with("X-Http-Method-Override", "GET").with("Content-Type", "application/x-www-form-urlencoded"))
	require.Equal(t, http.StatusMethodNotAllowed, rec.Code)
}

// With CLOUDFRONT_SECRET, only requests with the CDN's header are served. The header replaces no
// other check. Without the setting it is ignored.
func TestOriginGuard(t *testing.T) {
	t.Parallel()
	const current, next = "the-secret-of-the-cdn-is-32-bytes-long", "the-next-secret-of-the-cdn-32-bytes-long"
	guarded := newFixture(t, func(c *app.Config, _ *app.Services) { c.CloudFrontSecret = current + "," + next })
	for _, path := range []string{"/", "/api/v1/events", "/vwr-api/vwr/serving/busy", "/no/such/path", "/events/calm/seats"} {
		for name, c := range map[string]credentials{
			"no header": {}, "empty": {"X-CloudFront-Verified": ""}, "another": {"X-CloudFront-Verified": "true"},
			"cut": {"X-CloudFront-Verified": current[:10]}, "both": {"X-CloudFront-Verified": current + "," + next},
		} {
			rec := guarded.do(http.MethodGet, path, "", c.with("Accept", "application/json"))
			require.Equal(t, http.StatusForbidden, rec.Code, "%s: %s", path, name)
			require.Equal(t, "ORIGIN_REQUIRED", problemOf(t, rec)["code"])
		}
	}
	for _, secret := range []string{current, next} {
		require.Equal(t, http.StatusOK, guarded.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", credentials{"X-CloudFront-Verified": secret}).Code)
	}

	// The header replaces no token: neither a forged one nor a missing one.
	c, id := guarded.visitor()
	foreign := c.with("Cookie", "urr-vwr-token="+guarded.sign(tokentest.KeySet(t, foreignSecret), claims.NewTier1(busy, id, requestID, round, 7, guarded.now()))).
		with("X-CloudFront-Verified", current)
	require.Equal(t, http.StatusFound, guarded.do(http.MethodGet, "/events/busy", "", foreign).Code)
	rec := guarded.do(http.MethodGet, "/api/v1/seats/calm", "", guarded.session(alice).with("X-CloudFront-Verified", current))
	require.Equal(t, "QUEUE_TOKEN_REQUIRED", problemOf(t, rec)["code"])

	open := newFixture(t)
	for _, secret := range []string{"", current, "true"} {
		c := credentials{"X-CloudFront-Verified": secret}
		require.Equal(t, http.StatusOK, open.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", c).Code)
	}
}

func TestRefusedPagesRedirectBrowsers(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
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

func TestContradictoryRoutesAreRefused(t *testing.T) {
	t.Parallel()
	_, err := edge.NewTable(
		&edge.Route{ID: "a", Method: "GET", Pattern: "/x/{event_id}", Access: edge.Public},
		&edge.Route{ID: "b", Method: "GET", Pattern: "/x/{other_id}", Access: edge.Public})
	require.ErrorContains(t, err, "matches the same paths")
	for name, bad := range map[string]*edge.Route{
		"nobody":          {ID: "a", Method: "GET", Pattern: "/x"},
		"unknown who":     {ID: "a", Method: "GET", Pattern: "/x", Access: "everyone"},
		"entry, no event": {ID: "a", Method: "GET", Pattern: "/x", Access: edge.Entry},
		"no such param":   {ID: "a", Method: "GET", Pattern: "/x", Access: edge.Public, Event: edge.FromPath},
		"no message":      {ID: "a", Method: "POST", Pattern: "/x", Access: edge.Entry, Event: edge.FromBody},
		"token for all":   {ID: "a", Method: "GET", Pattern: "/x", Access: edge.User, Event: edge.FromToken},
		"wildcard":        {ID: "a", Method: "GET", Pattern: "/x/*", Access: edge.Public},
		"no act":          {ID: "a", Method: "POST", Pattern: "/x", Access: edge.User, ServedWithoutKafka: true},
		"personal or not": {ID: "a", Method: "GET", Pattern: "/x", Access: edge.Admin},
		"endless act":     {ID: "a", Method: "POST", Pattern: "/x", Access: edge.Admin, Stream: true},
	} {
		_, err := edge.NewTable(bad)
		require.Error(t, err, name)
	}
}

// Without DEV_LOGIN the route is not in the table.
func TestDevLoginExistsOnlyWhereConfigured(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, configured := range []bool{true, false} {
		w.cfg.DevLogin = configured
		g := w.assemble(t)
		require.Equal(t, configured, slices.ContainsFunc(g.Routes(), func(r *edge.Route) bool { return r.ID == "auth.dev-login" }))
	}
}
