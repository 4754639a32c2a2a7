package app_test

import (
	"maps"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/proto/access"
	"urr.guru/services/gateway/internal/app"
)

func environment() map[string]string {
	env := map[string]string{
		"HTTP_ADDR": "127.0.0.1:0", "RPC_PLAIN": "development", "SESSION_SECRET": sessionSecret, "VISITOR_SECRET": visitorSecret, "VWR_TICKET_SECRET": ticketSecret, "QUEUE_ENTRY_TOKEN_SECRET": entrySecret, "VWR_TOKEN_SECRET": tier1Secret,
		"REDIS_ADDRS": "127.0.0.1:16379", "KAFKA_BROKERS": "127.0.0.1:19092",
	}
	for _, s := range access.Calls()["gateway"] {
		env[strings.ToUpper(s)+"_ADDR"], env[strings.ToUpper(s)+"_RPC_KEY"] = "127.0.0.1:1", "a-key-of-at-least-thirty-two-bytes!"
	}
	return env
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cfg, err := config.LoadFrom[app.Config](t.Context(), environment())
	require.NoError(t, err)
	require.True(t, cfg.SecureCookies)
	require.True(t, cfg.VerifySlots)
	require.False(t, cfg.DevLogin)
	require.Equal(t, "127.0.0.1:1", cfg.Stats.Addr)

	for want, change := range map[string]map[string]string{
		"SESSION_SECRET":           {"SESSION_SECRET": "short"},
		"QUEUE_ENTRY_TOKEN_SECRET": {"QUEUE_ENTRY_TOKEN_SECRET": "short"},
		"VWR_TOKEN_SECRET":         {"VWR_TOKEN_SECRET": ""},
		"VWR_TICKET_SECRET":        {"VWR_TICKET_SECRET": ""},
		"VISITOR_SECRET":           {"VISITOR_SECRET": ""},
		"DEV_LOGIN":                {"DEV_LOGIN": "true"},
		"TRUSTED_PROXIES":          {"TRUSTED_PROXIES": "10.0.0.0/8,ten"},
		"TRUSTED_ORIGINS":          {"TRUSTED_ORIGINS": "https://shop.example,evil.example"},
		"CLOUDFRONT_SECRET":        {"CLOUDFRONT_SECRET": "short"},
		"TICKET_ADDR":              {"TICKET_ADDR": ""},
		"WORKER_ADDR":              {"WORKER_ADDR": ""},
		"HTTP_ADDR":                {"HTTP_ADDR": ""},
		"KAFKA_BROKERS":            {"KAFKA_BROKERS": ""},
		"SESSION_LIFE":             {"SESSION_LIFE": "1s"},
		"LIMIT_USER_RATE":          {"LIMIT_USER_RATE": "-1"},
		"LIMIT_PROOF_MAX_BITS":     {"LIMIT_PROOF_MIN_BITS": "18", "LIMIT_PROOF_MAX_BITS": "17"},
	} {
		env := environment()
		maps.Copy(env, change)
		if change[want] == "" {
			delete(env, want)
		}
		_, err := config.LoadFrom[app.Config](t.Context(), env)
		require.ErrorContains(t, err, want)
		require.NotContains(t, err.Error(), "short")
	}

	env := environment()
	env["DEV_LOGIN"], env["SECURE_COOKIES"] = "true", "false"
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err)
	env["OIDC_ISSUER"], env["OIDC_CLIENT_ID"], env["PUBLIC_URL"] = "http://accounts.test", "urr", "http://tickets.test"
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.ErrorContains(t, err, "DEV_LOGIN", "beside a provider")
	env["DEV_LOGIN"] = "false"
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err, "a provider alone")
	env = environment()
	delete(env, "VWR_ADDR")
	delete(env, "VWR_TOKEN_SECRET")
	delete(env, "VWR_TICKET_SECRET")
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err, "tier 2 alone")
	delete(env, "REWARD_ADDR")
	delete(env, "INGEST_ADDR")
	delete(env, "WORKER_ADDR")
	_, err = config.LoadFrom[app.Config](t.Context(), env)
	require.NoError(t, err, "neither rewards nor promotions")
}

// Outside development all cookies are Secure, and HSTS is sent.
func TestSecureCookies(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) { c.DevLogin, c.SecureCookies = false, true })
	rec := w.do("POST", "/vwr-api/vwr/assign/busy", "", nil)
	require.True(t, cookieOf(rec, "__Host-urr-anon").Secure)
	require.NotEmpty(t, rec.Header().Get("Strict-Transport-Security"))
	require.Equal(t, 404, w.do("POST", "/api/v1/auth/dev-login", `{"userId":"alice"}`, nil).Code)
}

func TestLimits(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) {
		c.Limits.UserRate, c.Limits.UserBurst = 0.01, 2
		c.Limits.PollVisitorRate, c.Limits.PollVisitorBurst = 0.01, 3
	})
	for range 2 {
		require.Equal(t, 200, w.do("POST", "/api/v1/queue/check/calm", "", w.session(alice)).Code)
	}
	rec := w.do("POST", "/api/v1/queue/check/calm", "", w.session(alice))
	require.Equal(t, 429, rec.Code)
	require.Equal(t, "RATE_LIMITED", problemOf(t, rec)["code"])
	require.NotEmpty(t, rec.Header().Get("Retry-After"))
	require.Equal(t, 200, w.do("POST", "/api/v1/queue/heartbeat/calm", "", w.session(alice)).Code, "heartbeats are limited as polls")
	require.Equal(t, 200, w.do("POST", "/api/v1/queue/check/calm", "", w.session(mallory)).Code)

	c, _ := w.visitor()
	for range 3 {
		require.Equal(t, 200, w.do("GET", "/vwr-api/vwr/serving/busy", "", c).Code)
	}
	require.Equal(t, 429, w.do("GET", "/vwr-api/vwr/serving/busy", "", c).Code)
	require.Equal(t, 200, w.do("GET", "/vwr-api/vwr/serving/busy", "", nil).Code)
	w.clock.Advance(100 * time.Second)
	require.Equal(t, 200, w.do("GET", "/vwr-api/vwr/serving/busy", "", c).Code, "the allowance is refilled")
}

// Requests that are refused for their origin or before they have a route are limited as polls.
func TestEarlyRefusalsAreLimited(t *testing.T) {
	t.Parallel()
	browser := credentials{"Accept": "text/html"}
	for name, c := range map[string]struct {
		method, target string
		credentials    credentials
		code           int
	}{
		"no such page":       {"GET", "/nowhere", browser, 404},
		"no such call":       {"GET", "/api/v1/nowhere", nil, 404},
		"another method":     {"DELETE", "/api/v1/events", nil, 405},
		"a malformed id":     {"GET", "/api/v1/events/%21", nil, 400},
		"a malformed path":   {"GET", "/%5c", nil, 400},
		"no secret of a CDN": {"GET", "/api/v1/events", nil, 403},
		"another origin":     {"POST", "/api/v1/queue/check/calm", credentials{"Sec-Fetch-Site": "cross-site"}, 403},
	} {
		w := newFixture(t, func(cfg *app.Config, _ *app.Services) {
			cfg.Limits.PollNetworkRate, cfg.Limits.PollNetworkBurst = 0.01, 3
			if name == "no secret of a CDN" {
				cfg.CloudFrontSecret = "a-secret-of-the-cdn-with-32-bytes!!!"
			}
		})
		for range 3 {
			require.Equal(t, c.code, w.do(c.method, c.target, "", c.credentials).Code, name)
		}
		rec := w.do(c.method, c.target, "", c.credentials)
		require.Equal(t, 429, rec.Code, name)
		require.NotEmpty(t, rec.Header().Get("Retry-After"))
		w.clock.Advance(100 * time.Second)
		require.Equal(t, c.code, w.do(c.method, c.target, "", c.credentials).Code, "the allowance is refilled")
	}
}

// The number of new visitors per network is limited. Existing visitors are not affected.
func TestNewVisitors(t *testing.T) {
	t.Parallel()
	w := newFixture(t, func(c *app.Config, _ *app.Services) {
		c.Limits.NewVisitorRate, c.Limits.NewVisitorBurst = 0.1, 3
		c.TrustedProxies = []string{"192.0.2.1"} // the address of httptest's requests
	})
	assign := func(from string, c credentials) *httptest.ResponseRecorder {
		return w.do("POST", "/vwr-api/vwr/assign/busy", "", c.with("X-Forwarded-For", from))
	}
	for range 3 {
		require.Equal(t, 200, assign("198.51.100.1", nil).Code)
	}
	rec := assign("198.51.100.1", nil)
	require.Equal(t, 429, rec.Code)
	require.Equal(t, "RATE_LIMITED", problemOf(t, rec)["code"])
	require.Equal(t, "10", rec.Header().Get("Retry-After"))
	require.Nil(t, cookieOf(rec, "urr-anon"), "a refused request gets no id")
	require.Equal(t, 429, assign("198.51.100.1", credentials{"Cookie": "urr-anon=forged"}).Code)
	known, _ := w.visitor()
	require.Equal(t, 200, assign("198.51.100.1", known).Code)
	require.Equal(t, 200, assign("198.51.100.2", nil).Code)
	w.clock.Advance(10 * time.Second)
	require.Equal(t, 200, assign("198.51.100.1", nil).Code)
	require.Equal(t, 429, assign("198.51.100.1", nil).Code)
}
