package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/app"
	"urr.guru/services/gateway/internal/captcha"
)

// captchaFixture returns a gateway with a captcha provider that accepts the token "good" once, and
// fails while down is true.
func captchaFixture(t *testing.T, failOpen bool) (w *fixture, down *atomic.Bool) {
	t.Helper()
	var used atomic.Bool
	down = new(atomic.Bool)
	provider := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if down.Load() {
			rw.WriteHeader(http.StatusBadGateway)
			return
		}
		fmt.Fprintf(rw, `{"success":%t}`, r.FormValue("secret") == "s" && r.FormValue("response") == "good" && !used.Swap(true))
	}))
	t.Cleanup(provider.Close)
	return newFixture(t, func(c *app.Config, _ *app.Services) {
		c.Captcha = captcha.Settings{VerifyURL: provider.URL, Secret: "s", Page: "/test", FailOpen: failOpen}
	}), down
}

// With a captcha provider, a new position requires the token of a passed test, which is used once.
func TestChallengeProvider(t *testing.T) {
	t.Parallel()
	w, down := captchaFixture(t, false)
	c, id := w.visitor()
	const header = "X-Vwr-Captcha"
	for what, c := range map[string]credentials{"no token": c, "a wrong one": c.with(header, "bad")} {
		rec := w.assign(c)
		require.Equal(t, http.StatusForbidden, rec.Code, what)
		m := problemOf(t, rec)
		require.Equal(t, "CAPTCHA_REQUIRED", m["code"], what)
		require.Equal(t, "/test", m["captchaUrl"], what)
	}
	down.Store(true)
	rec := w.assign(c.with(header, "good"))
	require.Equal(t, "UNAVAILABLE", problemOf(t, rec)["code"], "the provider does not answer")
	require.Empty(t, w.vwr.of("Assign"))
	down.Store(false)
	require.Equal(t, http.StatusOK, w.assign(c.with(header, "good")).Code)
	require.Equal(t, http.StatusOK, w.assign(c.with(header, "good")).Code, "repeated")
	require.Equal(t, http.StatusOK, w.assign(c).Code, "repeated without the token")
	other, _ := w.visitor()
	require.Equal(t, http.StatusForbidden, w.assign(other.with(header, "good")).Code, "another visitor with the same token")
	w.clock.Advance(6 * time.Minute)
	require.Equal(t, http.StatusForbidden, w.assign(c).Code, "later, without a position")
	require.Equal(t, http.StatusOK, w.assign(c.with("X-Vwr-Ticket", w.ticketFor(busy, id, round, 9))).Code, "with a position")
}

// With FailOpen, visitors get positions without a test while the provider does not answer.
func TestChallengeProviderFailsOpen(t *testing.T) {
	t.Parallel()
	w, down := captchaFixture(t, true)
	down.Store(true)
	c, _ := w.visitor()
	require.Equal(t, http.StatusOK, w.assign(c.with("X-Vwr-Captcha", "any")).Code)
	require.Equal(t, http.StatusForbidden, w.assign(credentials{"Cookie": c["Cookie"]}).Code, "who sends no token has not been tested")
	down.Store(false)
	require.Equal(t, http.StatusForbidden, w.assign(c.with("X-Vwr-Captcha", "any")).Code)
}
