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
	"urr.guru/services/gateway/internal/session"
)

const (
	client       = "urr-client"
	clientSecret = "client-secret"
	publicURL    = "http://tickets.test"
)

// identityProvider is an OpenID Connect provider. The test sets its next ID token and its faults.
type identityProvider struct {
	*httptest.Server

	key *ecdsa.PrivateKey

	mu        sync.Mutex
	keys      *oidctest.Server // publishes the public key
	claims    map[string]any   // of the next ID token
	signer    *ecdsa.PrivateKey
	keyID     string // of the signer
	challenge string
	secret    string
	status    int // of the token endpoint; 0: 200
	keyStatus int // of the keys; 0: 200
	down      bool
	codes     map[string]bool
}

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	p := &identityProvider{key: key, keys: &oidctest.Server{Algorithms: []string{oidc.ES256}}, secret: clientSecret, codes: map[string]bool{"code-1": true}}
	p.publish(key, "k1")
	mux := http.NewServeMux()
	mux.Handle("/", p.keys)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"end_session_endpoint": p.URL + "/end", "id_token_signing_alg_values_supported": []string{"ES256"},
		})
	})
	mux.HandleFunc("/token", p.token)
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if status := p.fault(r.URL.Path); status != 0 {
			http.Error(w, strings.Repeat("not now ", 1000), status)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.Close)
	p.keys.SetIssuer(p.URL)
	return p
}

// publish replaces the provider's key.
func (p *identityProvider) publish(key *ecdsa.PrivateKey, id string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.signer, p.keyID = key, id
	p.keys.PublicKeys = []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: id, Algorithm: oidc.ES256}}
}

// fault returns the status with which requests of a path fail, 0 if they succeed.
func (p *identityProvider) fault(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.down:
		return http.StatusServiceUnavailable
	case path == "/keys":
		return p.keyStatus
	}
	return 0
}

// change runs f, which changes the provider.
func (p *identityProvider) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// token is the token endpoint. It checks the client, PKCE, and the code, which is valid once.
func (p *identityProvider) token(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	code := r.PostFormValue("code")
	w.Header().Set("Content-Type", "application/json")
	switch {
	case p.status != 0:
		w.WriteHeader(p.status)
		_, _ = w.Write([]byte(`{"error": "server_error"}`))
	case id != client || secret != p.secret || !p.codes[code] || base64.RawURLEncoding.EncodeToString(sum[:]) != p.challenge:
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte(`{"error": "invalid_grant"}`))
	default:
		p.codes[code] = false
		raw, _ := json.Marshal(p.claims)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"access_token": "a", "token_type": "Bearer", "id_token": oidctest.SignIDToken(p.signer, p.keyID, oidc.ES256, string(raw)),
		})
	}
}

// prepare makes the code valid again, and sets the nonce and claims of the next ID token.
func (p *identityProvider) prepare(w *fixture, authQuery url.Values, claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.challenge, p.codes["code-1"] = authQuery.Get("code_challenge"), true
	p.claims = map[string]any{
		"iss": p.URL, "aud": client, "sub": alice, "nonce": authQuery.Get("nonce"), "iat": w.now().Unix(), "exp": w.now().Add(time.Minute).Unix(),
	}
	for name, value := range claims {
		if p.claims[name] = value; value == nil {
			delete(p.claims, name)
		}
	}
}

// with configures a gateway whose users sign in at the provider.
func (p *identityProvider) with(c *app.Config, _ *app.Services) {
	c.DevLogin = false
	c.OIDC = session.OIDC{
		Issuer: p.URL, ClientID: client, ClientSecret: config.Secret(clientSecret), Scopes: []string{"profile"},
		RolesClaim: "realm_access.roles", EntitlementClaims: []string{"tier"}, AdminRole: "urr-admin", StaffRole: "urr-staff", PublicURL: publicURL,
	}
}

// begin begins a sign-in. It returns the query sent to the provider and the attempt's cookie.
func (p *identityProvider) begin(t *testing.T, w *fixture, returnTo string) (authQuery url.Values, attempt string) {
	t.Helper()
	rec := w.do(http.MethodGet, publicURL+"/api/v1/auth/login?returnTo="+url.QueryEscape(returnTo), "", nil)
	require.Equal(t, http.StatusFound, rec.Code, rec.Body)
	require.Equal(t, "no-store", rec.Header().Get("Cache-Control"))
	to, err := url.Parse(rec.Header().Get("Location"))
	require.NoError(t, err)
	require.Equal(t, p.URL+"/authorize", to.Scheme+"://"+to.Host+to.Path)
	ck := rec.Result().Cookies()[0]
	prefix, path := "urr-sign-in-", "/api/v1/auth/callback"
	if w.cfg.SecureCookies {
		prefix, path = "__Host-urr-sign-in-", "/"
	}
	require.True(t, strings.HasPrefix(ck.Name, prefix), ck.Name)
	require.True(t, ck.HttpOnly)
	require.Equal(t, path, ck.Path)
	return to.Query(), ck.Name + "=" + ck.Value
}

// back sends the request with which the browser returns from the provider to the gateway.
func back(w *fixture, attempt string, answer url.Values) *httptest.ResponseRecorder {
	return w.do(http.MethodGet, "/api/v1/auth/callback?"+answer.Encode(), "", credentials{"Cookie": attempt})
}

// signIn signs a user in, and returns the response to the browser's return from the provider.
func (p *identityProvider) signIn(t *testing.T, w *fixture, claims map[string]any) *httptest.ResponseRecorder {
	t.Helper()
	authQuery, attempt := p.begin(t, w, "/")
	p.prepare(w, authQuery, claims)
	return back(w, attempt, url.Values{"code": {"code-1"}, "state": {authQuery.Get("state")}})
}

// setCookie returns a cookie that a response sets, nil if it sets none of this name.
func setCookie(rec *httptest.ResponseRecorder, name string) *http.Cookie {
	for _, ck := range rec.Result().Cookies() {
		if ck.Name == name && ck.MaxAge > 0 {
			return ck
		}
	}
	return nil
}
