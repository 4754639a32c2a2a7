package app_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/token/tokentest"
)

// refusedTokens returns how many tokens of a kind were refused for a reason, in all tests so far.
func refusedTokens(t *testing.T, kind, reason string) float64 {
	t.Helper()
	total, _ := metricstest.MetricSum(t, "urr_token_refusals_total", map[string]string{"kind": kind, "reason": reason})
	return total
}

// Forged, expired and revoked credentials are counted in the metrics.
func TestRefusedTokensAreCounted(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	foreign, buyer := tokentest.KeySet(t, foreignSecret), w.session(alice)
	signedOut := w.login(alice)
	require.Equal(t, http.StatusNoContent, w.do(http.MethodPost, "/api/v1/auth/logout", "", signedOut).Code)
	session := func(c *claims.Session) credentials {
		return credentials{"Authorization": "Bearer " + w.sign(w.sessions, c)}
	}
	visitor, id := w.visitor()
	for name, c := range map[string]struct {
		kind, reason, path string
		headers            credentials
	}{
		"a forged session":      {"session", "invalid", "/api/v1/auth/me", credentials{"Authorization": "Bearer x.y.z"}},
		"an expired session":    {"session", "expired", "/api/v1/auth/me", session(claims.NewSession(alice, nil, w.now().Add(-time.Hour), w.now()))},
		"a revoked session":     {"session", "revoked", "/api/v1/auth/me", signedOut},
		"another kind of token": {"session", "audience", "/api/v1/auth/me", credentials{"Authorization": "Bearer " + w.sign(w.sessions, claims.NewEntry(calm, alice, slot, epoch, w.now().Add(time.Minute), w.now()))}},
		"a forged visitor":      {"anon", "invalid", "/vwr-api/vwr/serving/busy", credentials{"Cookie": "urr-anon=x"}},
		"a forged tier-1 token": {"tier1", "invalid", "/events/busy", visitor.with("Cookie", "urr-vwr-token="+w.sign(foreign, claims.NewTier1(busy, id, requestID, round, 7, w.now())))},
		"a forged ticket":       {"ticket", "invalid", "/vwr-api/vwr/check/busy/" + requestID, visitor.with("X-Vwr-Ticket", "x")},
		"a forged entry token": {"entry", "invalid", "/api/v1/seats/calm", buyer.with("X-Queue-Entry-Token",
			w.sign(foreign, claims.NewEntry(calm, alice, slot, epoch, w.now().Add(time.Minute), w.now())))},
	} {
		before := refusedTokens(t, c.kind, c.reason)
		w.do(http.MethodGet, c.path, "", c.headers)
		require.Greater(t, refusedTokens(t, c.kind, c.reason), before, name)
	}
}
