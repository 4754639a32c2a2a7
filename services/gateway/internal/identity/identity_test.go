package identity_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/identity"
)

const secret = "a-secret-of-at-least-thirty-two-bytes"

// noRevocations is an empty list of revocations.
type noRevocations struct{}

func (noRevocations) HasBeenRead() bool              { return true }
func (noRevocations) IsRevoked(*claims.Session) bool { return false }

var start = time.Unix(1_700_000_000, 0)

func verifier(t testing.TB, c *testkit.Clock) *identity.Verifier {
	t.Helper()
	k := tokentest.KeySet(t, secret)
	v, err := identity.New(identity.Keys{Session: k, Tier1: k, Entry: k}, 100, noRevocations{}, c.Now)
	require.NoError(t, err)
	return v
}

func sign(t *testing.T, v *identity.Verifier, life time.Duration) http.Header {
	t.Helper()
	tok, err := v.SignSession(claims.NewSession("alice", nil, start, start.Add(life)))
	require.NoError(t, err)
	return http.Header{"Authorization": {"Bearer " + tok}}
}

// A cached token is refused from the moment it expires.
func TestCachedTokensExpire(t *testing.T) {
	t.Parallel()
	c := testkit.NewClock(start)
	v := verifier(t, c)
	h := sign(t, v, 10*time.Second)
	for range 3 {
		_, err := v.Session(h)
		require.NoError(t, err)
	}
	c.Set(start.Add(10*time.Second - 1))
	_, err := v.Session(h)
	require.NoError(t, err)
	c.Advance(1)
	_, err = v.Session(h)
	require.ErrorIs(t, err, errs.ErrSessionInvalid)
}

func TestSessionWithoutCredential(t *testing.T) {
	t.Parallel()
	v := verifier(t, testkit.NewClock(start))
	for _, h := range []http.Header{nil, {"Cookie": {"a=b"}}, {"Authorization": {"Basic abc"}}, {"Authorization": {"Bearer"}}, {"Cookie": {"xurr-session=1; urr-sessionx=2"}}} {
		_, err := v.Session(h)
		require.ErrorIs(t, err, errs.ErrUnauthenticated, "%v", h)
	}
}

// After a lobby the tier-1 token belongs to the user, not to the browser.
func TestTier1TokenAfterLobby(t *testing.T) {
	t.Parallel()
	v, k := verifier(t, testkit.NewClock(start)), tokentest.KeySet(t, secret)
	tok, err := k.Sign(claims.NewTier1("e", claims.UserPrefix+"alice", "r", 1, 1, start))
	require.NoError(t, err)
	h := http.Header{"Cookie": {"urr-vwr-token=" + tok}}
	require.NotNil(t, v.Tier1Token(h, "e", "", "alice"))
	require.Nil(t, v.Tier1Token(h, "e", "", "bob"))
	require.Nil(t, v.Tier1Token(h, "e", "some-visitor", ""))
	require.Nil(t, v.Tier1Token(h, "e", claims.UserPrefix+"bob", ""))
	require.Nil(t, v.Tier1Token(h, "f", "", "alice"))
}

func TestCookies(t *testing.T) {
	t.Parallel()
	for _, secure := range []bool{false, true} {
		ck := identity.Cookies{Secure: secure, Now: testkit.NewClock(start).Now}
		rec := httptest.NewRecorder()
		ck.Set(rec, identity.EntryCookie, "v", start.Add(60*time.Second))
		ck.Set(rec, identity.SessionCookie, "v", start.Add(500*time.Millisecond))
		set := rec.Header().Values("Set-Cookie")
		require.Contains(t, set[0], "Max-Age=60; HttpOnly;")
		require.Contains(t, set[0], "SameSite=Strict")
		require.Contains(t, set[0], "Path=/")
		require.Equal(t, secure, strings.Contains(set[0], "Secure"))
		require.Contains(t, set[1], "Max-Age=0", "an expired cookie is deleted")
		require.Contains(t, set[1], "SameSite=Lax")
	}
}

func visitorID(v *identity.Verifier, h http.Header) string {
	if a, ok := v.Visitor(h); ok {
		return a.String()
	}
	return ""
}

// The cookie of a visitor says what the visitor owes.
func TestVisitorsOweWork(t *testing.T) {
	t.Parallel()
	v := verifier(t, testkit.NewClock(start))
	for _, owes := range []uint8{0, 1, 16, 24} {
		a := claims.NewAnon(start)
		a.Owes = owes
		got, ok := v.Visitor(http.Header{"Cookie": {identity.AnonCookie + "=" + v.SealVisitor(a)}})
		require.True(t, ok)
		require.Equal(t, a, got)
	}
}

// The new key is added, then signs, then remains alone; a cached token is refused once its key is
// removed.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	v := verifier(t, testkit.NewClock(start))
	rekey := func(secrets string) {
		k := tokentest.KeySet(t, secrets)
		v.Rekey(identity.Keys{Session: k, Tier1: k, Entry: k})
	}
	const next = "another-secret-of-thirty-two-bytes"
	old := sign(t, v, time.Hour)
	visitor := v.SealVisitor(claims.NewAnon(start))
	anon := http.Header{"Cookie": {identity.AnonCookie + "=" + visitor}}
	verify := func(h http.Header) error {
		_, err := v.Session(h)
		return err
	}
	require.NoError(t, verify(old))

	rekey("1:" + secret + ",2:" + next)
	require.NoError(t, verify(old))
	require.NotEmpty(t, visitorID(v, anon))
	rekey("2:" + next + ",1:" + secret)
	require.NoError(t, verify(old))
	require.NotEmpty(t, visitorID(v, anon))
	recent := sign(t, v, time.Hour)

	rekey("2:" + next)
	require.ErrorIs(t, verify(old), errs.ErrSessionInvalid)
	require.Empty(t, visitorID(v, anon))
	require.NoError(t, verify(recent), "signed by the new key")
}
