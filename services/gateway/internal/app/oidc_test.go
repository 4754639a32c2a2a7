package app_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/services/gateway/internal/app"
)

const (
	client       = "urr-client"
	clientSecret = "client-secret"
	public       = "http://tickets.test"
)

// identityProvider is an OpenID Connect provider whose next ID token and faults the test decides.
type identityProvider struct {
	*httptest.Server

	key *ecdsa.PrivateKey

	mu        sync.Mutex
	claims    map[string]any // of the next ID token
	signer    *ecdsa.PrivateKey
	challenge string
	status    int // of the token endpoint; 0: 200
	away      bool
	codes     map[string]bool
}

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &identityProvider{key: key, signer: key, codes: map[string]bool{"code-1": true}}
	keys := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k1", Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256}}
	mux := http.NewServeMux()
	mux.Handle("/", keys)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if p.isAway() {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	keys.SetIssuer(p.URL)
	return p
}

func (p *identityProvider) isAway() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.away
}

// token checks the client, the code, which counts once, and PKCE.
func (p *identityProvider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, _ := r.BasicAuth()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	code := r.PostFormValue("code")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
		_, _ = w.Write([]byte(`{"error": "server_error"}`))
	case id != client || secret != clientSecret || !p.codes[code] || base64.RawURLEncoding.EncodeToString(sum[:]) != p.challenge:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error": "invalid_grant"}`))
	default:
		p.codes[code] = false
		raw, _ := json.Marshal(p.claims)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": "a", "token_type": "Bearer", "id_token": oidctest.SignIDToken(p.signer, "k1", oidc.ES256, string(raw)),
		})
	}
}

// state forgets the last sign-in, and sets what the next ID token says.
func (p *identityProvider) state(w *fixture, ask url.Values, claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.challenge, p.codes["code-1"] = ask.Get("code_challenge"), true
	p.claims = map[string]any{
		"iss": p.URL, "aud": client, "sub": alice, "nonce": ask.Get("nonce"), "iat": w.now().Unix(), "exp": w.now().Add(time.Minute).Unix(),
	}
	for name, value := range claims {
		if p.claims[name] = value; value == nil {
			delete(p.claims, name)
		}
	}
}

// with is a gateway whose users sign in at the provider.
func (p *identityProvider) with(c *app.Config, _ *app.Services) {
	c.DevLogin = false
	c.OIDC = app.OIDC{
		Issuer: p.URL, ClientID: client, ClientSecret: config.Secret(clientSecret), Scopes: []string{"profile"},
		RolesClaim: "realm_access.roles", AdminRole: "urr-admin", StaffRole: "urr-staff", PublicURL: public,
	}
}

// begin begins a sign-in, and returns what the provider is asked and the cookie of the attempt.
func (p *identityProvider) begin(t *testing.T, w *fixture, returnTo string) (ask url.Values, attempt string) {
	t.Helper()
	rec := w.do(http.MethodGet, "/api/v1/auth/login?returnTo="+url.QueryEscape(returnTo), "", nil)
	require.Equal(t, http.StatusFound, rec.Code, rec.Body)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	to, err := url.Parse(rec.Header().Get("Location"))
	require.NoError(t, err)
	require.Equal(t, p.URL+"/authorize", to.Scheme+"://"+to.Host+to.Path)
	ck := rec.Result().Cookies()[0]
	require.True(t, strings.HasPrefix(ck.Name, "urr-sign-in-"), ck.Name)
	require.True(t, ck.HttpOnly)
	require.Equal(t, "/api/v1/auth/callback", ck.Path)
	return to.Query(), ck.Name + "=" + ck.Value
}

// back is the browser's return from the provider.
func back(w *fixture, attempt string, answer url.Values) *httptest.ResponseRecorder {
	return w.do(http.MethodGet, "/api/v1/auth/callback?"+answer.Encode(), "", credentials{"Cookie": attempt})
}

// setCookie returns a cookie that a response sets, nil when there is none.
func setCookie(rec *httptest.ResponseRecorder, name string) *http.Cookie {
	for _, ck := range rec.Result().Cookies() {
		if ck.Name == name && ck.MaxAge > 0 {
			return ck
		}
	}
	return nil
}

func TestSignInAtTheProvider(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	ask, attempt := p.begin(t, w, "/queue/e1?x=1")
	for name, want := range map[string]string{
		"client_id": client, "response_type": "code", "scope": "openid profile", "redirect_uri": public + "/api/v1/auth/callback", "code_challenge_method": "S256",
	} {
		require.Equal(t, want, ask.Get(name), name)
	}
	p.state(w, ask, map[string]any{"realm_access": map[string]any{"roles": []string{"other", "urr-admin"}}})
	rec := back(w, attempt, url.Values{"code": {"code-1"}, "state": {ask.Get("state")}})
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
	require.Equal(t, url.Values{"client_id": {client}, "id_token_hint": {hint.Value}, "post_logout_redirect_uri": {public + "/"}}, end.Query())
	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodGet, "/api/v1/auth/me", "", credentials{"Cookie": "urr-session=" + session.Value}).Code)
}

// Nothing but an own path is returned to.
func TestSignInReturnsToThisSite(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	for _, foreign := range []string{"", "https://evil.test/", "//evil.test/", `/\evil.test`, "/.//evil.test"} {
		ask, attempt := p.begin(t, w, foreign)
		p.state(w, ask, nil)
		rec := back(w, attempt, url.Values{"code": {"code-1"}, "state": {ask.Get("state")}})
		require.Equal(t, "/", rec.Header().Get("Location"), foreign)
		require.NotNil(t, setCookie(rec, "urr-session"))
	}
}

func TestSignInRefused(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	foreign, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	type attack struct {
		claims  map[string]any      // of the ID token
		answer  func(url.Values)    // changes what the browser brings back
		prepare func()              // changes the provider
		cookie  func(string) string // changes the attempt
		outcome string
	}
	for name, a := range map[string]attack{
		"another nonce":          {claims: map[string]any{"nonce": "n"}, outcome: "invalid"},
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
		"denied":                 {answer: func(v url.Values) { v.Set("error", "access_denied") }, outcome: "refused"},
		"another state":          {answer: func(v url.Values) { v.Set("state", v.Get("state")[:8]+"X") }, outcome: "expired"},
		"no state":               {answer: func(v url.Values) { v.Del("state") }, outcome: "expired"},
		"another browser":        {cookie: func(string) string { return "" }, outcome: "expired"},
		"a forged attempt":       {cookie: func(c string) string { return c[:len(c)-4] + "AAAA" }, outcome: "expired"},
		"the provider has a bug": {prepare: func() { p.status = http.StatusInternalServerError }, outcome: "unavailable"},
	} {
		t.Run(name, func(t *testing.T) {
			ask, attempt := p.begin(t, w, "/my")
			p.state(w, ask, a.claims)
			answer := url.Values{"code": {"code-1"}, "state": {ask.Get("state")}}
			if a.answer != nil {
				a.answer(answer)
			}
			if a.cookie != nil {
				attempt = a.cookie(attempt)
			}
			p.signer, p.status = p.key, 0
			if a.prepare != nil {
				a.prepare()
			}
			rec := back(w, attempt, answer)
			require.Equal(t, http.StatusFound, rec.Code, rec.Body)
			to, err := url.Parse(rec.Header().Get("Location"))
			require.NoError(t, err)
			require.Equal(t, "/login", to.Path)
			require.Equal(t, a.outcome, to.Query().Get("failed"))
			require.Nil(t, setCookie(rec, "urr-session"))
		})
	}
	p.signer, p.status = p.key, 0
	ask, attempt := p.begin(t, w, "/my")
	p.state(w, ask, nil)
	answer := url.Values{"code": {"code-1"}, "state": {ask.Get("state")}}
	w.clock.Advance(16 * time.Minute)
	require.Contains(t, back(w, attempt, answer).Header().Get("Location"), "failed=expired", "after 15 minutes")

	ask, attempt = p.begin(t, w, "/my")
	p.state(w, ask, nil)
	answer.Set("state", ask.Get("state"))
	require.Equal(t, "/my", back(w, attempt, answer).Header().Get("Location"))
	require.Contains(t, back(w, attempt, answer).Header().Get("Location"), "failed=invalid", "a code counts once")
}

// The gateway serves without its provider, and finds it when it is back.
func TestSignInWhileTheProviderIsAway(t *testing.T) {
	p := newIdentityProvider(t)
	p.away = true
	w := newFixture(t, p.with)
	rec := w.do(http.MethodGet, "/api/v1/auth/login?returnTo=/my", "", nil)
	require.Equal(t, http.StatusFound, rec.Code)
	require.Equal(t, "/login?failed=unavailable&returnTo=%2Fmy", rec.Header().Get("Location"))
	p.mu.Lock()
	p.away = false
	p.mu.Unlock()
	p.begin(t, w, "/my")
}

// A subject that is no user id of URR becomes one, always the same; each has its own.
func TestSubjectsBecomeUserIDs(t *testing.T) {
	p := newIdentityProvider(t)
	w := newFixture(t, p.with)
	user := func(subject string) string {
		ask, attempt := p.begin(t, w, "/")
		p.state(w, ask, map[string]any{"sub": subject})
		session := setCookie(back(w, attempt, url.Values{"code": {"code-1"}, "state": {ask.Get("state")}}), "urr-session")
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
	require.NotEqual(t, user(strings.Repeat("x", 255)), user(strings.Repeat("x", 254)))
}

// Neither way to sign in exists where it is not configured.
func TestOnlyConfiguredSignIns(t *testing.T) {
	w := newFixture(t)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodGet, "/api/v1/auth/login", "", nil).Code)
	w = newFixture(t, newIdentityProvider(t).with)
	require.Equal(t, http.StatusNotFound, w.do(http.MethodPost, "/api/v1/auth/dev-login", `{"userId": "alice"}`, nil).Code)
}
