package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/token/tokentest"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// exploit is a set of credentials that must not give access.
type exploit struct {
	name    string
	headers credentials
}

// guarded is a request that requires a credential.
type guarded struct{ method, path, body string }

func (g guarded) String() string { return g.method + " " + g.path }

// guardedBy has, by kind of credential, requests that require it, of every method that has any.
var guardedBy = map[string][]guarded{
	"session": {
		{http.MethodGet, "/api/v1/auth/me", ""},
		{http.MethodHead, "/api/v1/my/tickets", ""},
		{http.MethodPost, "/api/v1/queue/check/calm", ""},
		{http.MethodGet, "/api/v1/queue/status/calm", ""},
		{http.MethodDelete, "/api/v1/my/reservations/" + requestID, ""},
		{http.MethodPut, "/api/v1/queue/admin/threshold/calm", `{"threshold":1}`},
		{http.MethodPost, "/api/v1/admin/sessions/revoke", `{"userId":"bob"}`},
		{http.MethodPost, "/api/v1/payments/prepare", `{"paymentType":"reservation","referenceId":"` + requestID + `"}`},
	},
	"entry": {
		{http.MethodGet, "/api/v1/seats/calm", ""},
		{http.MethodHead, "/api/v1/seats/calm/availability", ""},
		{http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"calm","seatIds":["A-1-1"]}`},
		{http.MethodPost, "/api/v1/reservations", `{"eventId":"calm","section":"A","quantity":2}`},
		{http.MethodGet, "/api/v1/reservations/" + requestID, ""},
		{http.MethodDelete, "/api/v1/reservations/" + requestID, ""},
		{http.MethodGet, "/events/calm/seats", ""},
		{http.MethodHead, "/events/calm/book", ""},
	},
	"tier1": {
		{http.MethodGet, "/events/busy", ""},
		{http.MethodHead, "/events/busy", ""},
		{http.MethodGet, "/api/v1/seats/busy", ""},
		{http.MethodPost, "/api/v1/seats/reserve", `{"eventId":"busy","seatIds":["A-1-1"]}`},
		{http.MethodPost, "/api/v1/promotions/busy/requests", ""},
		{http.MethodPost, "/api/v1/rewards/busy/attendance", ""},
	},
	"anon": {
		{http.MethodGet, "/vwr-api/vwr/check/busy/" + requestID, ""},
		{http.MethodHead, "/vwr-api/vwr/check/busy/" + requestID, ""},
	},
}

// forgedFrom makes an exploit of every forgery of a token. put returns headers with a token.
func forgedFrom(t *testing.T, kind, secret string, c jwt.Claims, put func(tok string) credentials) []exploit {
	t.Helper()
	var out []exploit
	for name, tok := range tokentest.Forgeries(t, "1", secret, c) {
		out = append(out, exploit{kind + ", " + name, put(tok)})
	}
	return out
}

// asEntry sends a token wherever entry tokens are read, asSession wherever sessions are read.
func (w *fixture) asEntry(tok string) credentials {
	return w.session(alice).with("X-Queue-Entry-Token", tok).with("Cookie", "urr-entry-token="+tok)
}

func asSession(tok string) credentials {
	return credentials{"Authorization": "Bearer " + tok, "Cookie": "urr-session=" + tok}
}

// forgedSessions returns credentials that are no valid session of anybody.
func (w *fixture) forgedSessions() []exploit {
	w.t.Helper()
	genuine := claims.NewSession(alice, []string{"admin"}, w.now(), w.now().Add(time.Hour))
	expired := claims.NewSession(alice, []string{"admin"}, w.now().Add(-time.Hour), w.now())
	signedOut := w.login(alice)
	require.Equal(w.t, http.StatusNoContent, w.do(http.MethodPost, "/api/v1/auth/logout", "", signedOut).Code)
	visitor, _ := w.visitor()
	return []exploit{
		{"expired", asSession(w.sign(w.sessions, expired))},
		{"after the sign-out", signedOut},
		{"an entry token", asSession(w.entryToken(calm, alice))},
		{"an entry token by the session's key", asSession(w.sign(w.sessions, claims.NewEntry(calm, alice, slot, epoch, w.now().Add(time.Minute), w.now())))},
		{"a tier-1 token by the session's key", asSession(w.sign(w.sessions, claims.NewTier1(busy, alice, requestID, round, 7, w.now())))},
		{"by the entry token's key", asSession(w.sign(w.entries, genuine))},
		{"a visitor's cookie", asSession(strings.TrimPrefix(visitor["Cookie"], "urr-anon="))},
		{"Basic", credentials{"Authorization": "Basic YWxpY2U6"}},
		{"the id alone", credentials{"Authorization": "Bearer alice", "Cookie": "urr-session=alice"}},
		{"headers that name the user", credentials{
			"X-User-Id": alice, "X-User-Roles": "admin", "X-Forwarded-User": alice, "Remote-User": alice, "X-Auth-Request-User": alice,
			"X-Cloudfront-Verified": "true", "X-Forwarded-For": "127.0.0.1", "Grpc-Metadata-Caller": alice, "Caller": alice, "X-Caller-Bin": "CgVhbGljZQ==",
		}},
		{"headers that name another path", credentials{"X-Original-Url": "/health", "X-Rewrite-Url": "/health", "X-Forwarded-Prefix": "/vwr/x", "X-Forwarded-Uri": "/"}},
		{"headers that name another method", credentials{"X-Http-Method-Override": "OPTIONS", "X-Http-Method": "OPTIONS", "X-Method-Override": "OPTIONS"}},
	}
}

// stolenEntries returns entry tokens that give their sender no access to calm.
func (w *fixture) stolenEntries() []exploit {
	w.t.Helper()
	sign := func(event, user string, epoch int64, ago time.Duration) string {
		at := w.now().Add(-ago)
		return w.sign(w.entries, claims.NewEntry(event, user, slot, epoch, w.now().Add(time.Minute), at))
	}
	at := w.now()
	return []exploit{
		{"none", w.session(alice)},
		{"another user's", w.asEntry(sign(calm, mallory, epoch, 0))},
		{"of a user with another case", w.asEntry(sign(calm, "Alice", epoch, 0))},
		{"sent by another user", w.session(mallory).with("X-Queue-Entry-Token", w.entryToken(calm, alice))},
		{"of the epoch before", w.asEntry(sign(calm, alice, epoch-1, 0))},
		{"expired", w.asEntry(sign(calm, alice, epoch, claims.EntryLife))},
		{"of a slot that has ended", w.asEntry(w.sign(w.entries, claims.NewEntry(calm, alice, slot, epoch, at, at)))},
		{"a session", w.asEntry(w.sign(w.entries, claims.NewSession(alice, nil, at, at.Add(time.Hour))))},
		{"a tier-1 token", w.asEntry(w.sign(w.entries, claims.NewTier1(calm, alice, requestID, round, 7, at)))},
		{"by the session's key", w.asEntry(w.sign(w.sessions, claims.NewEntry(calm, alice, slot, epoch, at.Add(time.Minute), at)))},
		{"by the tier-1 key", w.asEntry(w.sign(w.tier1, claims.NewEntry(calm, alice, slot, epoch, at.Add(time.Minute), at)))},
		{"in the wrong places", w.session(alice).with("X-Entry-Token", w.entryToken(calm, alice)).with("Cookie", "entry-token="+w.entryToken(calm, alice)+"; urr-vwr-token="+w.entryToken(calm, alice))},
		{"a header that vouches for it", w.session(alice).with("X-Cloudfront-Verified", "true")},
	}
}

// stolenTier1Tokens returns tier-1 tokens that give their sender no access to busy.
func (w *fixture) stolenTier1Tokens() []exploit {
	w.t.Helper()
	visitor, id := w.visitor()
	visitor = visitor.with("Authorization", w.session(mallory)["Authorization"])
	tier1Cookie := func(event, uid string, round, position int64, at time.Time) credentials {
		return visitor.with("Cookie", "urr-vwr-token="+w.sign(w.tier1, claims.NewTier1(event, uid, requestID, round, position, at)))
	}
	tier2 := claims.NewTier1(busy, id, requestID, round, 7, w.now())
	tier2.Tier = 2
	_, other := w.visitor()
	return []exploit{
		{"none", visitor},
		{"of another event", tier1Cookie(calm, id, round, 7, w.now())},
		{"of another round", tier1Cookie(busy, id, round-1, 7, w.now())},
		{"of another tier", visitor.with("Cookie", "urr-vwr-token="+w.sign(w.tier1, tier2))},
		{"of another visitor", tier1Cookie(busy, other, round, 7, w.now())},
		{"of a user with a place from the lobby", tier1Cookie(busy, claims.UserPrefix+alice, round, 7, w.now())},
		{"of the user's own name, without the prefix", tier1Cookie(busy, mallory, round, 7, w.now())},
		{"position 0", tier1Cookie(busy, id, round, 0, w.now())},
		{"expired", tier1Cookie(busy, id, round, 7, w.now().Add(-claims.Tier1Life))},
		{"without the visitor's cookie", w.session(mallory).with("Cookie", "urr-vwr-token="+w.tier1Token(busy, id))},
		{"in a header", visitor.with("X-Vwr-Token", w.tier1Token(busy, id)).with("Urr-Vwr-Token", w.tier1Token(busy, id))},
		{"an entry token by the tier-1 key", visitor.with("Cookie", "urr-vwr-token="+w.sign(w.tier1, claims.NewEntry(busy, mallory, slot, epoch, w.now().Add(time.Minute), w.now())))},
		{"by the entry token's key", visitor.with("Cookie", "urr-vwr-token="+w.sign(w.entries, claims.NewTier1(busy, id, requestID, round, 7, w.now())))},
		{"an entry token of another event", visitor.with("X-Queue-Entry-Token", w.entryToken(calm, mallory))},
	}
}

// forgedVisitors returns credentials that are no valid cookie of a visitor.
func (w *fixture) forgedVisitors() []exploit {
	c, id := w.visitor()
	good := strings.TrimPrefix(c["Cookie"], "urr-anon=")
	other := claims.NewAnon(w.now())
	cookie := func(value string) credentials { return credentials{"Cookie": "urr-anon=" + value} }
	return []exploit{
		{"none", nil},
		{"the id alone", cookie(id)},
		{"truncated", cookie(good[:len(good)-2])},
		{"another id before the signature", cookie(other.Seal(w.visitors.Derive(claims.LabelAnon))[:24] + good[24:])},
		{"by another key", cookie(other.Seal(tokentest.KeySet(w.t, foreignSecret).Derive(claims.LabelAnon)))},
		{"by a key of another purpose", cookie(other.Seal(w.visitors.Derive(claims.LabelVwrTicket)))},
		{"in a header", credentials{"Urr-Anon": good, "X-Anon-Id": id}},
	}
}

// exploits returns all exploits, by the kind of credential that they imitate.
func (w *fixture) exploits(t *testing.T) map[string][]exploit {
	t.Helper()
	own, id := w.visitor()
	own = own.with("Authorization", w.session(mallory)["Authorization"])
	return map[string][]exploit{
		"session": slices.Concat(w.forgedSessions(), forgedFrom(t, "session", sessionSecret,
			claims.NewSession(alice, []string{"admin"}, w.now(), w.now().Add(time.Hour)), asSession)),
		"entry": slices.Concat(w.stolenEntries(), forgedFrom(t, "entry token", entrySecret,
			claims.NewEntry(calm, alice, slot, epoch, w.now().Add(time.Minute), w.now()), w.asEntry)),
		"tier1": slices.Concat(w.stolenTier1Tokens(), forgedFrom(t, "tier-1 token", tier1Secret,
			claims.NewTier1(busy, id, requestID, round, 7, w.now()), func(tok string) credentials { return own.with("Cookie", "urr-vwr-token="+tok) })),
		"anon": w.forgedVisitors(),
	}
}

// A forged or stolen credential is refused by every request that requires it, whatever its method.
// No call reaches a service.
func TestForgedAndStolenCredentials(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	refusals := map[string][]string{
		"session": {"UNAUTHENTICATED", "SESSION_INVALID"}, "entry": {"QUEUE_TOKEN_REQUIRED"}, "tier1": {"VWR_TOKEN_REQUIRED"}, "anon": {"VISITOR_REQUIRED"},
	}
	total := 0
	for kind, list := range w.exploits(t) {
		methods := map[string]bool{}
		for _, x := range list {
			for _, g := range guardedBy[kind] {
				methods[g.method] = true
				rec := w.do(g.method, g.path, g.body, x.headers)
				requireDenied(t, g, rec, fmt.Sprintf("%s: %s", kind, x.name), refusals[kind])
			}
		}
		require.NotEmpty(t, methods[http.MethodGet], kind)
		total += len(list)
	}
	require.Empty(t, w.serviceCalls(), "no call reaches a service")
	require.Greater(t, total, 40)

	// Genuine credentials are accepted. Otherwise the refusals above would prove nothing.
	visitor, id := w.visitor()
	for kind, c := range map[string]credentials{
		"session": w.session(alice, "admin"), "entry": w.buyer(calm), "anon": visitor,
		"tier1": visitor.with("Authorization", w.session(alice)["Authorization"]).with("Cookie", "urr-vwr-token="+w.tier1Token(busy, id)),
	} {
		for _, g := range guardedBy[kind] {
			rec := w.do(g.method, g.path, g.body, c)
			if kind == "tier1" && strings.Contains(g.path, "seats") {
				require.Equal(t, "QUEUE_TOKEN_REQUIRED", problemOf(t, rec)["code"], "%s: the next check", g)
				continue
			}
			require.Less(t, rec.Code, http.StatusBadRequest, "%s: %s: %s", kind, g, rec.Body)
		}
	}
}

// requireDenied fails unless the answer is a refusal with one of the codes, or a redirect of a page
// to where the credential is issued.
func requireDenied(t *testing.T, g guarded, rec *httptest.ResponseRecorder, what string, codes []string) {
	t.Helper()
	if rec.Code == http.StatusFound {
		require.Regexp(t, "^/(queue/calm|vwr/busy)$", rec.Header().Get("Location"), "%s: %s", what, g)
		return
	}
	require.Contains(t, []int{http.StatusUnauthorized, http.StatusForbidden}, rec.Code, "%s: %s: %s", what, g, rec.Body)
	if g.method != http.MethodHead {
		require.Contains(t, codes, problemOf(t, rec)["code"], "%s: %s", what, g)
	}
}

// After the queue service has ended a slot, methods that change something refuse the slot's token,
// though the token itself is still valid.
func TestTokenOfAnEndedSlotChangesNothing(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	w.queue.end(slot)
	for _, g := range guardedBy["entry"] {
		rec := w.do(g.method, g.path, g.body, w.buyer(calm))
		if g.method == http.MethodPost || g.method == http.MethodDelete {
			require.Equal(t, "SLOT_ENDED", problemOf(t, rec)["code"], "%s", g)
		}
	}
	for _, method := range []string{"HoldSeats", "HoldBest", "CancelReservation"} {
		require.Empty(t, w.ticket.of(method), method)
	}
}

// The queue service never gets a position that the gateway has not verified. It gets a genuine one
// that a second user of the same browser sends, since it knows whose that is (PASS_USED).
func TestLineSeesVerifiedPositionsOnly(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	for _, x := range w.exploits(t)["tier1"] {
		w.do(http.MethodPost, "/api/v1/queue/check/busy", "", x.headers)
	}
	calls := w.queue.of("Check")
	require.NotEmpty(t, calls)
	for _, c := range calls {
		in, _ := c.msg.(*queuev1.LineItem)
		require.True(t, in.GetCaller().GetTier1().GetRequired())
		require.Zero(t, in.GetCaller().GetTier1().GetPosition())
	}
	browser, id := w.visitor()
	browser = browser.with("Cookie", "urr-vwr-token="+w.tier1Token(busy, id))
	for _, user := range []string{alice, mallory} {
		w.do(http.MethodPost, "/api/v1/queue/check/busy", "", browser.with("Authorization", w.session(user)["Authorization"]))
		all := w.queue.of("Check")
		last := all[len(all)-1].caller
		require.Equal(t, user, last.GetUserId())
		require.Equal(t, []any{int64(7), requestID}, []any{last.GetTier1().GetPosition(), last.GetTier1().GetRequestId()})
	}
}

// pathTricks rewrite a path in such ways that checks and a router might read it differently.
var pathTricks = map[string]func(path string) string{
	"double slash":         func(p string) string { return strings.Replace(p, "/api/", "/api//", 1) },
	"slash at the end":     func(p string) string { return p + "/" },
	"dot segment":          func(p string) string { return strings.Replace(p, "/api/", "/api/./", 1) },
	"out of an open path":  func(p string) string { return "/vwr/x/../.." + p },
	"encoded dots":         func(p string) string { return "/api/v1/events/%2e%2e/%2e%2e/%2e%2e" + p },
	"encoded slash":        func(p string) string { return "/api/v1/auth%2f..%2f..%2f.." + p },
	"encoded letter":       func(p string) string { return strings.Replace(p, "v1", "%76%31", 1) },
	"alias":                func(p string) string { return strings.Replace(p, "/api/v1/", "/api/", 1) },
	"alias of an alias":    func(p string) string { return strings.Replace(p, "/api/v1/", "/api/api/v1/", 1) },
	"upper case":           func(p string) string { return strings.ToUpper(p[:7]) + p[7:] },
	"encoded twice":        func(p string) string { return strings.Replace(p, "v1", "%2576%2531", 1) },
	"parameter of a path":  func(p string) string { return strings.Replace(p, "/v1/", "/v1;x=/health/", 1) },
	"null byte":            func(p string) string { return p + "%00/health" },
	"backslash":            func(p string) string { return strings.Replace(p, "/v1/", "/v1%5c", 1) },
	"open path in a query": func(p string) string { return p + "?path=/health&x=/vwr/" },
	"open path behind a #": func(p string) string { return p + "%23/health" },
	"full-width letter":    func(p string) string { return strings.Replace(p, "v1", "%EF%BD%961", 1) },
}

// No form of a path avoids the checks of its route, whatever the method.
func TestPathTricksOnEveryMethod(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	require.Len(t, slices.Collect(maps.Keys(pathTricks)), 17)
	for name, rewrite := range pathTricks {
		for kind, list := range guardedBy {
			for _, g := range list {
				if !strings.HasPrefix(g.path, "/api/") {
					continue
				}
				rec := w.do(g.method, rewrite(g.path), g.body, nil)
				require.Contains(t, []int{
					http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound, http.StatusBadRequest, http.StatusMethodNotAllowed,
				}, rec.Code, "%s: %s: %s: %s", kind, name, g, rec.Body)
			}
		}
	}
	require.Empty(t, w.serviceCalls(), "no call reaches a service")
}
