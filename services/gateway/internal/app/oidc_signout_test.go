package app_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/app"
)

// signOut ends a session of a browser that has the given ID token in a cookie.
func signOut(w *fixture, hint string) *httptest.ResponseRecorder {
	return w.do(http.MethodPost, "/api/v1/auth/logout", "", w.session(alice).with("Cookie", "urr-id-token="+hint))
}

// A gateway that has just started also redirects the browser to the provider's sign-out. While the
// provider is down, only the session here ends. In both cases the browser drops the ID token.
func TestSignOutAtAGatewayThatHasJustStarted(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	p.change(func() { p.down = true })
	rec := signOut(w, "hint")
	require.Equal(t, http.StatusNoContent, rec.Code, rec.Body)
	require.Negative(t, cookieOf(rec, "urr-id-token").MaxAge)
	require.Contains(t, w.logs.take(), "goes on after a sign-out")
	p.change(func() { p.down = false })
	rec = signOut(w, "hint")
	require.Equal(t, http.StatusOK, rec.Code, rec.Body)
	require.Contains(t, jsonOf(t, rec)["redirectTo"], "id_token_hint=hint")
	require.Negative(t, cookieOf(rec, "urr-id-token").MaxAge)

	w = newFixture(t) // a gateway without a provider
	rec = signOut(w, "hint")
	require.Equal(t, http.StatusNoContent, rec.Code, rec.Body)
	require.Negative(t, cookieOf(rec, "urr-id-token").MaxAge)
	rec = w.do(http.MethodPost, "/api/v1/auth/logout", "", w.session(alice))
	require.Equal(t, http.StatusNoContent, rec.Code, rec.Body)
	require.Nil(t, cookieOf(rec, "urr-id-token"))
}

// A sign-out by the path's alias leads to the provider too, but without the ID token.
func TestSignOutByTheAlias(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	sent := map[string]string{} // the cookies with an ID token that a browser sends, by path
	for _, ck := range p.signIn(t, w, nil).Result().Cookies() {
		if ck.Name == "urr-id-token" {
			sent[ck.Path] += "urr-id-token=" + ck.Value
		}
	}
	require.Len(t, sent, 2)
	for _, path := range []string{"/api/v1/auth/logout", "/api/auth/logout"} {
		rec := w.do(http.MethodPost, path, "", w.session(alice).with("Cookie", sent[path]))
		require.Equal(t, http.StatusOK, rec.Code, rec.Body)
		require.Contains(t, jsonOf(t, rec)["redirectTo"], p.URL+"/end", path)
		cleared := map[string]bool{}
		for _, ck := range rec.Result().Cookies() {
			cleared[ck.Path] = cleared[ck.Path] || ck.Name == "urr-id-token" && ck.MaxAge < 0
		}
		require.True(t, cleared["/api/v1/auth/logout"] && cleared["/api/auth/logout"], "%s clears both", path)
	}
}

// A sign-out needs no session: even if the session here has ended, that of the provider is ended. A
// sign-out may be repeated.
func TestSignOutAfterTheSession(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	rec := p.signIn(t, w, nil)
	hint, kept := setCookie(rec, "urr-id-token"), setCookie(rec, "urr-session")
	require.Equal(t, kept.MaxAge+24*60*60, hint.MaxAge, "the ID token outlives the session")
	revoked := credentials{"Authorization": "Bearer " + kept.Value}
	require.Equal(t, http.StatusNoContent, w.do(http.MethodPost, "/api/v1/auth/logout", "", revoked).Code)
	past := claims.NewSession(alice, nil, w.now().Add(-time.Hour), w.now())
	for name, c := range map[string]credentials{
		"no session": {}, "a revoked session": revoked, "an expired session": {"Authorization": "Bearer " + w.sign(w.sessions, past)},
	} {
		rec := w.do(http.MethodPost, "/api/v1/auth/logout", "", c.with("Cookie", "urr-id-token="+hint.Value))
		require.Equal(t, http.StatusOK, rec.Code, "%s: %s", name, rec.Body)
		require.Contains(t, jsonOf(t, rec)["redirectTo"], "id_token_hint="+hint.Value, name)
		for _, cleared := range []string{"urr-session", "urr-entry-token", "urr-id-token"} {
			require.Negative(t, cookieOf(rec, cleared).MaxAge, "%s: %s", name, cleared)
		}
		rec = w.do(http.MethodPost, "/api/v1/auth/logout", "", c)
		require.Equal(t, http.StatusNoContent, rec.Code, "%s, again: %s", name, rec.Body)
		require.Negative(t, cookieOf(rec, "urr-session").MaxAge, name)
	}
}

// A page of another origin cannot sign a user out.
func TestSignOutOfAnotherOrigin(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	for _, c := range []credentials{{"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}, {"Origin": "https://evil.example"}} {
		for name, c := range map[string]credentials{"without a session": c, "with one": c.with("Authorization", w.session(alice)["Authorization"])} {
			rec := w.do(http.MethodPost, "/api/v1/auth/logout", "", c.with("Cookie", "urr-id-token=hint"))
			require.Equal(t, http.StatusForbidden, rec.Code, name)
			require.Equal(t, "CROSS_ORIGIN", problemOf(t, rec)["code"], name)
			require.Empty(t, rec.Result().Cookies(), name)
		}
	}
}

// An ID token that is too long for proxies is not kept, so the provider asks the user. Its cookie
// overwrites that of an earlier user.
func TestSignOutWithoutALongIDToken(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	hint := setCookie(p.signIn(t, w, map[string]any{"picture": strings.Repeat("x", 1500)}), "urr-id-token")
	require.Equal(t, "-", hint.Value)
	to, _ := jsonOf(t, signOut(w, hint.Value))["redirectTo"].(string)
	end, err := url.Parse(to)
	require.NoError(t, err)
	require.Equal(t, url.Values{"client_id": {client}, "post_logout_redirect_uri": {publicURL + "/"}}, end.Query())
}

// The longest response headers of a sign-in fit into the default buffer of nginx, 4096 bytes.
func TestHeadersOfASignInAreShort(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with, func(c *app.Config, _ *app.Services) { c.SecureCookies = true })
	size := func(rec *httptest.ResponseRecorder) int {
		var out strings.Builder
		require.NoError(t, rec.Header().Write(&out))
		return out.Len() + len("HTTP/1.1 302 Found\r\nDate: Sun, 01 Mar 2026 10:00:00 GMT\r\nContent-Length: 0\r\n\r\n")
	}
	for name, c := range map[string]struct {
		email string
		tiers []string
		least int // up to this length of a claim the ID token is kept
	}{
		"plain":                  {"", nil, 500},
		"with a person's claims": {strings.Repeat("e", 60) + "@example.com", slices.Repeat([]string{"<>&"}, 200), 1},
	} {
		t.Run(name, func(t *testing.T) { requireShortHeaders(t, p, w, c.email, c.tiers, c.least, size) })
	}
}

func requireShortHeaders(t *testing.T, p *identityProvider, w *fixture, email string, tiers []string, least int, size func(*httptest.ResponseRecorder) int) {
	t.Helper()
	longest := 0
	for n := 1; n < 1500; n += 8 {
		authQuery, attempt := p.begin(t, w, "/"+strings.Repeat("x", 1023))
		p.prepare(w, authQuery, map[string]any{
			"sub": strings.Repeat("s", 63), "realm_access": map[string]any{"roles": []string{"urr-admin", "urr-staff"}}, "picture": strings.Repeat("x", n),
			"email": email, "email_verified": true, "tier": tiers,
		})
		rec := back(w, attempt, url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}})
		require.Equal(t, "/"+strings.Repeat("x", 1023), rec.Header().Get("Location"))
		hint := setCookie(rec, "urr-id-token").Value
		if hint == "-" {
			require.GreaterOrEqual(t, n, least, "common tokens are kept")
			return
		}
		longest = max(longest, size(rec))
		require.Less(t, longest, 4096-200, "with an ID token of %d bytes: proxies add headers, and the secrets' ids may be long", len(hint))
	}
	t.Fatal("no ID token was too long")
}
