package app_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/app"
)

func TestSignInAtTheProvider(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	authQuery, attempt := p.begin(t, w, "/queue/e1?x=1")
	for name, want := range map[string]string{
		"client_id": client, "response_type": "code", "scope": "openid profile", "redirect_uri": publicURL + "/api/v1/auth/callback", "code_challenge_method": "S256",
	} {
		require.Equal(t, want, authQuery.Get(name), name)
	}
	p.prepare(w, authQuery, map[string]any{"realm_access": map[string]any{"roles": []string{"other", "urr-admin"}}})
	rec := back(w, attempt, url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}})
	require.Equal(t, http.StatusFound, rec.Code, rec.Body)
	require.Equal(t, "/queue/e1?x=1", rec.Header().Get("Location"))
	session, hint := setCookie(rec, "urr-session"), setCookie(rec, "urr-id-token")
	require.Equal(t, "/api/v1/auth/logout", hint.Path, "no other request carries it")
	me := w.do(http.MethodGet, "/api/v1/auth/me", "", credentials{"Cookie": "urr-session=" + session.Value})
	require.Equal(t, http.StatusOK, me.Code, me.Body)
	var who struct {
		UserID string
		Roles  []string
	}
	require.NoError(t, json.Unmarshal(me.Body.Bytes(), &who))
	require.Equal(t, alice, who.UserID)
	require.Equal(t, []string{"admin"}, who.Roles)

	out := w.do(http.MethodPost, "/api/v1/auth/logout", "", credentials{"Cookie": "urr-session=" + session.Value + "; urr-id-token=" + hint.Value})
	require.Equal(t, http.StatusOK, out.Code, out.Body)
	var answer struct{ RedirectTo string }
	require.NoError(t, json.Unmarshal(out.Body.Bytes(), &answer))
	end, err := url.Parse(answer.RedirectTo)
	require.NoError(t, err)
	require.Equal(t, p.URL+"/end", end.Scheme+"://"+end.Host+end.Path)
	require.Equal(t, url.Values{"client_id": {client}, "id_token_hint": {hint.Value}, "post_logout_redirect_uri": {publicURL + "/"}}, end.Query())
	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodGet, "/api/v1/auth/me", "", credentials{"Cookie": "urr-session=" + session.Value}).Code)
}

// A sign-in returns only to a path of this site.
func TestSignInReturnsToThisSite(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	for _, foreign := range []string{"", "https://evil.test/", "//evil.test/", `/\evil.test`, "/.//evil.test", "/" + strings.Repeat("x", 1024)} {
		authQuery, attempt := p.begin(t, w, foreign)
		p.prepare(w, authQuery, nil)
		rec := back(w, attempt, url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}})
		require.Equal(t, "/", rec.Header().Get("Location"), foreign)
		require.NotNil(t, setCookie(rec, "urr-session"))
	}
}

func TestSignInRefused(t *testing.T) {
	p := newIdentityProvider(t)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	failed := func(code string) func(url.Values) { return func(v url.Values) { v.Set("error", code) } }
	type attack struct {
		claims  map[string]any      // of the ID token
		answer  func(url.Values)    // changes what the browser brings back
		prepare func()              // changes the provider
		cookie  func(string) string // changes the attempt
		outcome string
	}
	for name, a := range map[string]attack{
		"another nonce":          {claims: map[string]any{"nonce": "n"}, outcome: "invalid"},
		"no subject":             {claims: map[string]any{"sub": nil}, outcome: "invalid"},
		"no nonce":               {claims: map[string]any{"nonce": nil}, outcome: "invalid"},
		"another audience":       {claims: map[string]any{"aud": "other"}, outcome: "invalid"},
		"two audiences, no azp":  {claims: map[string]any{"aud": []string{client, "other"}}, outcome: "invalid"},
		"for another client":     {claims: map[string]any{"azp": "other"}, outcome: "invalid"},
		"another issuer":         {claims: map[string]any{"iss": "https://evil.test"}, outcome: "invalid"},
		"expired":                {claims: map[string]any{"exp": start.Add(-time.Hour).Unix()}, outcome: "invalid"},
		"another key":            {prepare: func() { p.signer = foreign }, outcome: "invalid"},
		"a code of another":      {answer: func(v url.Values) { v.Set("code", "code-2") }, outcome: "invalid"},
		"no code":                {answer: func(v url.Values) { v.Del("code") }, outcome: "invalid"},
		"PKCE of another":        {prepare: func() { p.challenge = "other" }, outcome: "invalid"},
		"denied":                 {answer: failed("access_denied"), outcome: "refused"},
		"no login":               {answer: failed("login_required"), outcome: "refused"},
		"no interaction":         {answer: failed("interaction_required"), outcome: "refused"},
		"no consent":             {answer: failed("consent_required"), outcome: "refused"},
		"an error there":         {answer: failed("server_error"), outcome: "unavailable"},
		"overload there":         {answer: failed("temporarily_unavailable"), outcome: "unavailable"},
		"another client":         {answer: failed("unauthorized_client"), outcome: "invalid"},
		"no such code":           {answer: failed("made up"), outcome: "invalid"},
		"another state":          {answer: func(v url.Values) { v.Set("state", v.Get("state")[:8]+"X") }, outcome: "expired"},
		"no state":               {answer: func(v url.Values) { v.Del("state") }, outcome: "expired"},
		"another browser":        {cookie: func(string) string { return "" }, outcome: "expired"},
		"a forged attempt":       {cookie: func(c string) string { return c[:len(c)-4] + "AAAA" }, outcome: "expired"},
		"the provider has a bug": {prepare: func() { p.status = http.StatusInternalServerError }, outcome: "unavailable"},
		"too many codes":         {prepare: func() { p.status = http.StatusTooManyRequests }, outcome: "unavailable"},
		"too slow a request":     {prepare: func() { p.status = http.StatusRequestTimeout }, outcome: "unavailable"},
		"no keys":                {prepare: func() { p.signer, p.keyStatus = foreign, http.StatusBadGateway }, outcome: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, p.with) // knows no keys yet
			authQuery, attempt := p.begin(t, w, "/my")
			p.prepare(w, authQuery, a.claims)
			answer := url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}}
			if a.answer != nil {
				a.answer(answer)
			}
			if a.cookie != nil {
				attempt = a.cookie(attempt)
			}
			p.change(func() {
				p.signer, p.status, p.keyStatus = p.key, 0, 0
				if a.prepare != nil {
					a.prepare()
				}
			})
			rec := back(w, attempt, answer)
			require.Equal(t, http.StatusFound, rec.Code, rec.Body)
			to, err := url.Parse(rec.Header().Get("Location"))
			require.NoError(t, err)
			require.Equal(t, "/login", to.Path)
			require.Equal(t, a.outcome, to.Query().Get("failed"))
			require.Nil(t, setCookie(rec, "urr-session"))
		})
	}
	p.change(func() { p.signer, p.status, p.keyStatus = p.key, 0, 0 })
	w := newFixture(t, p.with)
	authQuery, attempt := p.begin(t, w, "/my")
	p.prepare(w, authQuery, nil)
	answer := url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}}
	w.clock.Advance(16 * time.Minute)
	require.Contains(t, back(w, attempt, answer).Header().Get("Location"), "failed=expired", "after 15 minutes")

	authQuery, attempt = p.begin(t, w, "/my")
	p.prepare(w, authQuery, nil)
	answer.Set("state", authQuery.Get("state"))
	require.Equal(t, "/my", back(w, attempt, answer).Header().Get("Location"))
	require.Contains(t, back(w, attempt, answer).Header().Get("Location"), "failed=expired", "an attempt counts once")
}

// The gateway serves requests without its provider, and uses the provider when it is back.
func TestSignInWhileTheProviderIsAway(t *testing.T) {
	p := newIdentityProvider(t)
	p.down = true
	w := newFixture(t, p.with)
	rec := w.do(http.MethodGet, publicURL+"/api/v1/auth/login?returnTo=/my", "", nil)
	require.Equal(t, http.StatusFound, rec.Code)
	require.Equal(t, "/login?failed=unavailable&returnTo=%2Fmy", rec.Header().Get("Location"))
	p.change(func() { p.down = false })
	p.begin(t, w, "/my")
}

// A subject that is no valid user id becomes one: always the same, and different for each subject.
func TestSubjectsBecomeUserIDs(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	user := func(subject string) string {
		session := setCookie(p.signIn(t, w, map[string]any{"sub": subject}), "urr-session")
		var who struct{ UserID string }
		me := w.do(http.MethodGet, "/api/v1/auth/me", "", credentials{"Cookie": "urr-session=" + session.Value})
		require.NoError(t, json.Unmarshal(me.Body.Bytes(), &who))
		return who.UserID
	}
	require.Equal(t, "a.b@c", user("a.b@c"))
	first := user("auth0|123")
	require.Regexp(t, `^sub-[A-Za-z0-9_-]{43}$`, first)
	require.Equal(t, first, user("auth0|123"))
	require.NotEqual(t, first, user("auth0|124"))
	require.NotEqual(t, first, user(first), "nobody chooses to be another user")
	require.NotEqual(t, user(strings.Repeat("x", 255)), user(strings.Repeat("x", 254)))
}

// Each way to sign in exists only where it is configured.
func TestOnlyConfiguredSignIns(t *testing.T) {
	w := newFixture(t)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/auth/login", "", nil).Code)
	w = newFixture(t, newIdentityProvider(t).with)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodPost, "/api/v1/auth/dev-login", `{"userId": "alice"}`, nil).Code)
}

// After the provider has replaced its key, the next sign-in reads the new one.
func TestKeyOfTheProviderRotates(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	require.NotNil(t, setCookie(p.signIn(t, w, nil), "urr-session"))
	next, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p.publish(next, "k2")
	// go-oidc ends a fetch of keys just after its answer: a sign-in before gets the former keys.
	testkit.Until(t, func() bool { return setCookie(p.signIn(t, w, nil), "urr-session") != nil }, "a sign-in with the next key")
}

// A new client secret is used at once. Without a secret the gateway is a public client.
func TestSecretAtTheProviderRotates(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	for _, secret := range []string{clientSecret, "next", ""} {
		p.change(func() { p.secret = secret })
		if secret != clientSecret {
			require.Contains(t, p.signIn(t, w, nil).Header().Get("Location"), "failed=invalid", "the old secret")
		}
		w.cfg.OIDC.ClientSecret = config.Secret(secret)
		require.NoError(t, w.gateway.Rekey(w.cfg))
		require.NotNil(t, setCookie(p.signIn(t, w, nil), "urr-session"), "%q", secret)
	}
}

// The cookie of a sign-in attempt belongs to one host. So a sign-in at another host is redirected
// to the public URL first, but only once, even if a proxy hides the host.
func TestSignInBeginsAtThePublicURL(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	const path = "/api/v1/auth/login?returnTo="
	for _, other := range []string{"http://www.tickets.test", "http://localhost", "http://tickets.test:8080"} {
		rec := w.do(http.MethodGet, other+path+"/my", "", nil)
		require.Equal(t, http.StatusFound, rec.Code, rec.Body)
		require.Equal(t, publicURL+"/api/v1/auth/login?home=1&returnTo=%2Fmy", rec.Header().Get("Location"))
		require.Empty(t, rec.Result().Cookies())
		rec = w.do(http.MethodGet, other+path+"/my&home=1", "", nil)
		require.Contains(t, rec.Header().Get("Location"), p.URL+"/authorize")
		rec = w.do(http.MethodGet, other+path+"//evil.test", "", nil)
		require.Equal(t, publicURL+"/api/v1/auth/login?home=1&returnTo=%2F", rec.Header().Get("Location"))
	}
	for _, own := range []string{publicURL, publicURL + ":80", "http://Tickets.TEST"} {
		rec := w.do(http.MethodGet, own+path+"/my", "", nil)
		require.Contains(t, rec.Header().Get("Location"), p.URL+"/authorize", own)
	}
}

// Requests that cause calls of the provider are limited like requests that change something.
func TestSignInsAreLimited(t *testing.T) {
	p := newIdentityProvider(t)
	for _, path := range []string{"/api/v1/auth/login", "/api/v1/auth/callback"} {
		w := newFixture(t, p.with, func(c *app.Config, _ *app.Services) { c.Limits.NetworkRate, c.Limits.NetworkBurst = 0.01, 2 })
		for range 2 {
			require.Equal(t, http.StatusFound, w.do(http.MethodGet, publicURL+path, "", nil).Code)
		}
		require.Equal(t, http.StatusTooManyRequests, w.do(http.MethodGet, publicURL+path, "", nil).Code, path)
		require.Equal(t, http.StatusOK, w.do(http.MethodGet, "/vwr-api/vwr/serving/busy", "", nil).Code, "polls are counted apart")
	}
}

// Returns from the provider have a limit of their own per network, and higher ones per IPv6 prefix.
func TestReturnsFromTheProviderAreLimited(t *testing.T) {
	p := newIdentityProvider(t)
	for name, c := range map[string]struct {
		networks, want int
		address        string
	}{"one IPv4 address": {1, 2, "198.51.100.%x"}, "20 networks of a /48": {20, 32, "2001:db8:1:%x00::1"}} {
		w := newFixture(t, p.with, func(c *app.Config, _ *app.Services) {
			c.Limits.SignInRate, c.Limits.SignInBurst = 0.01, 2
			c.TrustedProxies = []string{"192.0.2.1"} // the address of httptest's requests
		})
		accepted := 0
		from := func(i int) credentials { return credentials{"X-Forwarded-For": fmt.Sprintf(c.address, 1+i%c.networks)} }
		for i := range 100 {
			rec := w.do(http.MethodGet, publicURL+"/api/v1/auth/callback", "", from(i))
			if rec.Code == http.StatusFound {
				accepted++
				continue
			}
			require.Equal(t, http.StatusTooManyRequests, rec.Code)
		}
		require.Equal(t, c.want, accepted, name)
		require.Equal(t, http.StatusFound, w.do(http.MethodGet, publicURL+"/api/v1/auth/login", "", from(0)).Code, "a sign-in may begin")
	}
}

// A failure that the user has caused is logged at debug. Long texts of the provider are cut.
func TestSignInFailuresInTheLog(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	failure := func(answer url.Values) string {
		authQuery, attempt := p.begin(t, w, "/")
		p.prepare(w, authQuery, nil)
		answer.Set("state", authQuery.Get("state"))
		w.logs.take()
		back(w, attempt, answer)
		return w.logs.take()
	}
	require.Contains(t, failure(url.Values{"error": {"access_denied"}}), "level=DEBUG msg=\"sign-in failed\"")
	require.Contains(t, failure(url.Values{"error": {"server_error"}}), "level=ERROR msg=\"sign-in failed\"")
	require.Contains(t, failure(url.Values{"code": {"code-2"}}), "level=WARN msg=\"sign-in failed\"")
	back(w, "", url.Values{})
	require.Contains(t, w.logs.take(), "level=DEBUG msg=\"sign-in failed\"")
	named := failure(url.Values{"error": {strings.Repeat("e", 100)}})
	require.Contains(t, named, strings.Repeat("e", 64))
	require.NotContains(t, named, strings.Repeat("e", 65))

	w = newFixture(t, p.with)
	p.change(func() { p.down = true })
	require.Contains(t, w.do(http.MethodGet, publicURL+"/api/v1/auth/login", "", nil).Header().Get("Location"), "failed=unavailable")
	long := w.logs.take()
	require.Contains(t, long, "not now not now")
	require.Less(t, len(long), 1000)
}

// A sign-in that the browser cancels is not counted as a failure of the provider.
func TestCancelledSignInsAreNotCounted(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	authQuery, attempt := p.begin(t, w, "/")
	p.prepare(w, authQuery, nil)
	w.logs.take()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := w.request(http.MethodGet, "/api/v1/auth/callback?"+url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}}.Encode(), "", credentials{"Cookie": attempt})
	before := signInsCounted(t)
	w.gateway.Handler.ServeHTTP(httptest.NewRecorder(), r.WithContext(ctx))
	require.InDelta(t, before, signInsCounted(t), 0)
	require.NotContains(t, w.logs.take(), "sign-in failed")
}

// signInsCounted returns the sum of urr_sign_ins_total.
func signInsCounted(t *testing.T) (n float64) {
	t.Helper()
	families, err := prometheus.DefaultGatherer.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != "urr_sign_ins_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			n += m.GetCounter().GetValue()
		}
		return n
	}
	require.Fail(t, "urr_sign_ins_total is not registered")
	return 0
}
