package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/token"
	"urr.guru/services/gateway/internal/identity"
)

const (
	first  = "a:first-secret-of-at-least-thirty-two-b"
	second = "b:second-secret-of-at-least-thirty-two"
)

var start = time.Unix(1_700_000_000, 0)

type clock struct{ ns atomic.Int64 }

func (c *clock) now() time.Time { return start.Add(time.Duration(c.ns.Load())) }

func keySet(t *testing.T, s string) token.KeySet {
	t.Helper()
	k, err := token.ParseKeySet(config.Secret(s))
	require.NoError(t, err)
	return k
}

func verifier(t *testing.T, c *clock, secret string) *identity.Verifier {
	t.Helper()
	k := keySet(t, secret)
	v, err := identity.New(identity.Keys{Session: k, Tier1: k, Entry: k}, 100, c.now)
	require.NoError(t, err)
	return v
}

func sign(t *testing.T, v *identity.Verifier, life time.Duration) http.Header {
	t.Helper()
	tok, err := v.SignSession(claims.NewSession("alice", nil, start, start.Add(life)))
	require.NoError(t, err)
	return http.Header{"Authorization": {"Bearer " + tok}}
}

func TestKeysRotate(t *testing.T) {
	t.Parallel()
	c := &clock{}
	old, both, only := verifier(t, c, first), verifier(t, c, second+","+first), verifier(t, c, second)
	before, after := sign(t, old, time.Hour), sign(t, both, time.Hour)
	for _, h := range []http.Header{before, after} {
		s, err := both.Session(h)
		require.NoError(t, err)
		require.Equal(t, "alice", s.UserID)
	}
	_, err := only.Session(before)
	require.ErrorIs(t, err, errs.ErrSessionInvalid)
	_, err = only.Session(after)
	require.NoError(t, err)

	id, cookie := old.NewAnon()
	require.Equal(t, id, both.Anon(http.Header{"Cookie": {"urr-anon=" + cookie}}))
	require.Empty(t, only.Anon(http.Header{"Cookie": {"urr-anon=" + cookie}}))
}

// TestCachedTokensExpire: what was verified once is not believed a moment longer than it lives.
func TestCachedTokensExpire(t *testing.T) {
	t.Parallel()
	c := &clock{}
	v := verifier(t, c, first)
	h := sign(t, v, 10*time.Second)
	for range 3 {
		_, err := v.Session(h)
		require.NoError(t, err)
	}
	c.ns.Store(int64(10*time.Second) - 1)
	_, err := v.Session(h)
	require.NoError(t, err)
	c.ns.Store(int64(10 * time.Second))
	_, err = v.Session(h)
	require.ErrorIs(t, err, errs.ErrSessionInvalid)
}

func TestSessionWithoutCredential(t *testing.T) {
	t.Parallel()
	v := verifier(t, &clock{}, first)
	for _, h := range []http.Header{nil, {"Cookie": {"a=b"}}, {"Authorization": {"Basic abc"}}, {"Authorization": {"Bearer"}}, {"Cookie": {"xurr-session=1; urr-sessionx=2"}}} {
		_, err := v.Session(h)
		require.ErrorIs(t, err, errs.ErrUnauthenticated, "%v", h)
	}
}

// TestLobbyPasses: after a lobby the pass is the user's, not the browser's.
func TestLobbyPasses(t *testing.T) {
	t.Parallel()
	v, k := verifier(t, &clock{}, first), keySet(t, first)
	tok, err := k.Sign(claims.NewTier1("e", claims.UserPrefix+"alice", "r", 1, 1, start))
	require.NoError(t, err)
	h := http.Header{"Cookie": {"urr-vwr-token=" + tok}}
	require.NotNil(t, v.Tier1(h, "e", "", "alice"))
	require.Nil(t, v.Tier1(h, "e", "", "bob"))
	require.Nil(t, v.Tier1(h, "e", "some-visitor", ""))
	require.Nil(t, v.Tier1(h, "e", claims.UserPrefix+"bob", ""))
	require.Nil(t, v.Tier1(h, "f", "", "alice"))
}

func TestCookies(t *testing.T) {
	t.Parallel()
	c := &clock{}
	for _, secure := range []bool{false, true} {
		ck := identity.Cookies{Secure: secure, Now: c.now}
		rec := httptest.NewRecorder()
		ck.Set(rec, identity.EntryCookie, "v", start.Add(60*time.Second))
		ck.Set(rec, identity.SessionCookie, "v", start.Add(500*time.Millisecond))
		set := rec.Header().Values("Set-Cookie")
		require.Contains(t, set[0], "Max-Age=60; HttpOnly;")
		require.Contains(t, set[0], "SameSite=Strict")
		require.Contains(t, set[0], "Path=/")
		require.Equal(t, secure, strings.Contains(set[0], "Secure"))
		require.Contains(t, set[1], "Max-Age=0", "what has ended is deleted")
		require.Contains(t, set[1], "SameSite=Lax")
	}
}
