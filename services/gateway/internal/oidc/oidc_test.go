package oidc_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/services/gateway/internal/oidc"
)

func TestRoles(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	for name, c := range map[string]struct {
		claim  string
		claims object
		want   []string
	}{
		"a list":              {"roles", object{"roles": []any{"chief", "other", "door"}}, []string{"admin", "staff"}},
		"a string":            {"roles", object{"roles": "door"}, []string{"staff"}},
		"a number":            {"roles", object{"roles": 1.0}, []string{}},
		"numbers":             {"roles", object{"roles": []any{1.0, nil, "chief"}}, []string{"admin"}},
		"twice":               {"roles", object{"roles": []any{"chief", "chief"}}, []string{"admin"}},
		"none":                {"roles", object{}, []string{}},
		"nested":              {"realm_access.roles", object{"realm_access": object{"roles": []any{"chief"}}}, []string{"admin"}},
		"nested in no object": {"realm_access.roles", object{"realm_access": "chief"}, []string{}},
		"a name with dots":    {"https://tickets.example/roles", object{"https://tickets.example/roles": []any{"door"}}, []string{"staff"}},
		"literal before path": {"a.b", object{"a.b": "door", "a": object{"b": "chief"}}, []string{"staff"}},
		"no role has no name": {"roles", object{"roles": []any{""}}, []string{}},
		"a name of URR":       {"roles", object{"roles": []any{"admin"}}, []string{}},
	} {
		p := oidc.New(oidc.Config{RolesClaim: c.claim, Roles: map[string]string{"chief": "admin", "door": "staff", "": "admin"}}, time.Now)
		require.Equal(t, c.want, p.RolesOf(c.claims), name)
	}
}

// silent is a transport to a server that never answers.
type silent struct{}

func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// A sign-out waits at most 2 s for a provider that does not answer.
func TestEndSessionIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := oidc.New(oidc.Config{Issuer: "https://accounts.test"}, time.Now)
		p.SetTransport(silent{})
		began := time.Now()
		_, err := p.EndSession(t.Context(), "hint")
		require.ErrorIs(t, err, oidc.ErrUnavailable)
		require.Equal(t, 2*time.Second, time.Since(began))
		time.Sleep(time.Minute) // other calls may wait for the look-up, so it outlives this one
	})
}

// At most 32 sign-ins call the provider at the same time. The next one waits a little and fails.
// When one ends, another may begin.
func TestExchangesInFlightAreBounded(t *testing.T) {
	t.Parallel()
	arrived, release := make(chan struct{}), make(chan struct{})
	mux := http.NewServeMux()
	srv := httptest.NewServer(mux)
	letGo := sync.OnceFunc(func() { close(release) })
	t.Cleanup(srv.Close)
	t.Cleanup(letGo)
	mux.HandleFunc("/.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]any{
			"issuer": srv.URL, "authorization_endpoint": srv.URL, "token_endpoint": srv.URL + "/token", "jwks_uri": srv.URL + "/keys",
		})
	})
	mux.HandleFunc("/token", func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.WriteHeader(http.StatusBadRequest)
	})
	p := oidc.New(oidc.Config{Issuer: srv.URL, ClientID: "urr", PublicURL: "http://tickets.test"}, time.Now)
	complete := func() error {
		_, err := p.Complete(t.Context(), claims.NewSignIn("/", time.Now()), "code")
		return err
	}
	ended := make(chan error)
	for range 32 {
		go func() { ended <- complete() }()
	}
	for range 32 {
		<-arrived
	}
	require.ErrorIs(t, complete(), oidc.ErrUnavailable)
	letGo()
	for range 32 {
		require.ErrorIs(t, <-ended, oidc.ErrInvalid)
	}
	go func() { <-arrived }()
	require.ErrorIs(t, complete(), oidc.ErrInvalid)
}

// The e-mail address is used only if the provider has verified it. Claims are strings, numbers and
// booleans.
func TestPerson(t *testing.T) {
	t.Parallel()
	type object = map[string]any
	for name, c := range map[string]struct {
		claims object
		want   claims.Person
	}{
		"nothing":          {object{}, claims.Person{}},
		"verified":         {object{"email": "A@Example.com", "email_verified": true}, claims.Person{Email: "a@example.com"}},
		"verified as text": {object{"email": "a@example.com", "email_verified": "true"}, claims.Person{Email: "a@example.com"}},
		"not verified":     {object{"email": "a@example.com", "email_verified": false}, claims.Person{}},
		"of unknown truth": {object{"email": "a@example.com"}, claims.Person{}},
		"too long":         {object{"email": strings.Repeat("a", 255), "email_verified": true}, claims.Person{}},
		"claims": {
			object{"tier": "gold", "org": object{"groups": []any{"a", 7.0, true, nil, object{}}}, "other": "x"},
			claims.Person{Claims: []string{"tier=gold", "org.groups=a", "org.groups=7", "org.groups=true"}},
		},
	} {
		p := oidc.New(oidc.Config{EntitlementClaims: []string{"tier", "org.groups"}}, time.Now)
		require.Equal(t, c.want, p.PersonOf(c.claims), name)
	}
}
