package identity_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
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
	v, err := identity.New(identity.Keys{Session: k, Visitor: k, Tier1: k, Ticket: k, Entry: k}, 100, noRevocations{}, c.Now)
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

// With https, no session, visitor or attempt is read from a cookie that another subdomain can set.
func TestSecureCookiesAreOfThisHost(t *testing.T) {
	t.Parallel()
	v := verifier(t, testkit.NewClock(start)).WithSecureCookies(true)
	ck := identity.Cookies{Secure: true, Now: testkit.NewClock(start).Now}
	session, err := v.SignSession(claims.NewSession("alice", nil, start, start.Add(time.Hour)))
	require.NoError(t, err)
	attempt := claims.NewSignIn("/", start)
	signed, err := v.SignAttempt(attempt)
	require.NoError(t, err)
	visitor := v.SealVisitor(claims.NewAnon(start))
	for name, value := range map[string]string{identity.SessionCookie: session, identity.AnonCookie: visitor, identity.AttemptCookie(attempt.State): signed} {
		rec := httptest.NewRecorder()
		ck.Set(rec, name, value, start.Add(time.Hour))
		ck.Clear(rec, name)
		for _, set := range rec.Result().Cookies() {
			if set.Name == identity.SignedInCookie { // scripts read it, and it gives no rights
				require.Equal(t, identity.SessionCookie, name)
				require.False(t, set.HttpOnly)
				require.Contains(t, []string{"1", ""}, set.Value)
				continue
			}
			require.Equal(t, "__Host-"+name, set.Name)
			require.Equal(t, "/", set.Path)
			require.True(t, set.Secure)
			require.Empty(t, set.Domain)
		}
	}
	accepted := func(prefix string) (n int) {
		h := http.Header{"Cookie": {prefix + "urr-session=" + session + "; " + prefix + "urr-anon=" + visitor + "; " + prefix + identity.AttemptCookie(attempt.State) + "=" + signed}}
		if _, err := v.Session(h); err == nil {
			n++
		}
		if visitorID(v, h) != "" {
			n++
		}
		if _, err := v.Attempt(h, attempt.State); err == nil {
			n++
		}
		return n + len(v.Sessions(h))
	}
	require.Equal(t, 4, accepted("__Host-"))
	require.Zero(t, accepted(""))
	require.Zero(t, accepted("__host-"))
}

// Of several cookies with the same name the valid one is used, at any place in the header.
func TestSeveralCookiesOfOneName(t *testing.T) {
	t.Parallel()
	v := verifier(t, testkit.NewClock(start))
	keys := tokentest.KeySet(t, secret)
	sign := func(c *claims.Session) string {
		tok, err := v.SignSession(c)
		require.NoError(t, err)
		return tok
	}
	alice := claims.NewSession("alice", nil, start, start.Add(time.Hour))
	session, other := sign(alice), sign(claims.NewSession("mallory", nil, start, start.Add(time.Hour)))
	expired := sign(claims.NewSession("alice", nil, start.Add(-time.Hour), start.Add(-time.Minute)))
	entry, err := keys.Sign(claims.NewEntry("e", "alice", "slot", 7, start.Add(time.Hour), start))
	require.NoError(t, err)
	foreign, err := keys.Sign(claims.NewEntry("e", "mallory", "slot", 7, start.Add(time.Hour), start))
	require.NoError(t, err)
	anon := claims.NewAnon(start)
	id, visitor := anon.String(), v.SealVisitor(anon)
	tier1, err := keys.Sign(claims.NewTier1("e", id, "r", 1, 1, start))
	require.NoError(t, err)
	attempt := claims.NewSignIn("/", start)
	signed, err := v.SignAttempt(attempt)
	require.NoError(t, err)
	name := identity.AttemptCookie(attempt.State)
	for _, planted := range []string{"x", "", expired, foreign} {
		for _, order := range [][2]int{{0, 1}, {1, 0}} {
			h := http.Header{}
			for n, genuine := range map[string]string{
				identity.SessionCookie: session, identity.AnonCookie: visitor, identity.Tier1Cookie: tier1, identity.EntryCookie: entry, name: signed,
			} {
				values := [2]string{planted, genuine}
				h.Add("Cookie", n+"="+values[order[0]]+"; "+n+"="+values[order[1]])
			}
			c, err := v.Session(h)
			require.NoError(t, err, "%q", planted)
			require.Equal(t, alice.ID, c.ID)
			require.Equal(t, id, visitorID(v, h))
			require.NotNil(t, v.Tier1Token(h, "e", id, ""))
			require.NotNil(t, v.EntryToken(h, "e", "alice"))
			_, err = v.Attempt(h, attempt.State)
			require.NoError(t, err)
		}
	}
	cookies := func(values ...string) http.Header {
		return http.Header{"Cookie": {"urr-session=" + strings.Join(values, "; urr-session=")}}
	}
	for _, both := range []http.Header{cookies(session, other), cookies(other, session), cookies(session, session, other)} {
		_, err = v.Session(both)
		require.ErrorIs(t, err, errs.ErrSessionInvalid, "one of them was planted")
		require.GreaterOrEqual(t, len(v.Sessions(both)), 2, "a sign-out ends both")
	}
	_, err = v.Session(cookies(session, session))
	require.NoError(t, err)
	_, err = v.Session(cookies(append(slices.Repeat([]string{"x"}, 8), session)...))
	require.ErrorIs(t, err, errs.ErrSessionInvalid, "the checks of one request are bounded")
}

// Polls identify their caller without allocating.
func TestIdentifyingAPollAllocatesNothing(t *testing.T) {
	v := verifier(t, testkit.NewClock(start)).WithSecureCookies(true)
	keys := tokentest.KeySet(t, secret)
	session, err := v.SignSession(claims.NewSession("alice", nil, start, start.Add(time.Hour)))
	require.NoError(t, err)
	entry, err := keys.Sign(claims.NewEntry("e", "alice", "slot", 7, start.Add(time.Hour), start))
	require.NoError(t, err)
	h := http.Header{"Cookie": {"a=b; __Host-urr-session=" + session + "; urr-entry-token=" + entry}}
	require.Zero(t, testing.AllocsPerRun(100, func() {
		_, _ = v.Session(h)
		_, _ = v.Visitor(h)
		_ = v.Tier1Token(h, "e", "", "alice")
		_ = v.EntryToken(h, "e", "alice")
	}))
}

func visitorID(v *identity.Verifier, h http.Header) string {
	if a, ok := v.Visitor(h); ok {
		return a.String()
	}
	return ""
}

// The visitor's cookie keeps the bits of work that the visitor owes.
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

// A key is added, then it signs, then it remains alone. A cached token is refused after the removal
// of its key.
func TestKeyRotation(t *testing.T) {
	t.Parallel()
	v := verifier(t, testkit.NewClock(start))
	rekey := func(secrets string) {
		k := tokentest.KeySet(t, secrets)
		v.Rekey(identity.Keys{Session: k, Visitor: k, Tier1: k, Ticket: k, Entry: k})
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
