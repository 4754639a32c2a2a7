package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// login signs a user in and returns the session as a Bearer token.
func (w *fixture) login(user string) credentials {
	w.t.Helper()
	rec := w.do(http.MethodPost, "/api/v1/auth/dev-login", `{"userId":"`+user+`"}`, nil)
	require.Equal(w.t, http.StatusOK, rec.Code, "%s", rec.Body)
	token, _ := jsonOf(w.t, rec)["token"].(string)
	return credentials{"Authorization": "Bearer " + token}
}

func (w *fixture) requireSession(works bool, c credentials, who string) {
	w.t.Helper()
	rec := w.do(http.MethodGet, "/api/v1/auth/me", "", c)
	if works {
		require.Equal(w.t, http.StatusOK, rec.Code, "%s: %s", who, rec.Body)
		return
	}
	require.Equal(w.t, http.StatusUnauthorized, rec.Code, who)
	require.Equal(w.t, "SESSION_INVALID", problemOf(w.t, rec)["code"], who)
}

// Signing out revokes the session, not only the cookie, so that copies of the token are refused
// too. Other sessions of the user stay valid.
func TestLogoutEndsTheSession(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	stolen, other := w.login(alice), w.login(alice)
	browser := w.login(alice)
	w.requireSession(true, stolen, "before")
	both := stolen.with("Cookie", "urr-session="+browser["Authorization"][len("Bearer "):])
	require.Equal(t, http.StatusNoContent, w.do(http.MethodPost, "/api/v1/auth/logout", "", both).Code)
	w.requireSession(false, stolen, "the header's session")
	w.requireSession(false, browser, "the cookie's session")
	w.requireSession(true, other, "another session")
	require.Equal(t, http.StatusUnauthorized, w.do(http.MethodPost, "/api/v1/queue/check/calm", "", stolen).Code)
}

// An operator ends all sessions of a user, for example after a change of roles, or a single one.
func TestOperatorsRevokeSessions(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	admin := w.session("operator", "admin")
	first, second, othersSession := w.login(alice), w.login(alice), w.login(mallory)
	revoke := func(body string, c credentials) int {
		return w.do(http.MethodPost, "/api/v1/admin/sessions/revoke", body, c).Code
	}
	require.Equal(t, http.StatusForbidden, revoke(`{"userId":"alice"}`, w.session(alice, "staff")))
	require.Equal(t, http.StatusUnauthorized, revoke(`{"userId":"alice"}`, nil))

	id, _ := jsonOf(t, w.do(http.MethodGet, "/api/v1/auth/me", "", first))["sessionId"].(string)
	require.Equal(t, http.StatusNoContent, revoke(`{"sessionId":"`+id+`"}`, admin))
	w.requireSession(false, first, "the session named")
	w.requireSession(true, second, "the user's other session")

	w.clock.Advance(time.Millisecond)
	require.Equal(t, http.StatusNoContent, revoke(`{"userId":"alice"}`, admin))
	w.requireSession(false, second, "issued before")
	w.requireSession(true, othersSession, "another user's")
	w.clock.Advance(time.Millisecond)
	w.requireSession(true, w.login(alice), "issued afterwards")
}
