package app_test

import (
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/services/gateway/internal/app"
)

const payHost = "pay.shop.test"

// withPayHost configures a gateway whose payment page has a host of its own.
func withPayHost(c *app.Config, _ *app.Services) {
	c.Pay = app.PayPage{Host: payHost, ClientKey: "test_ck", ScriptURL: "https://js.tosspayments.com/v2/standard"}
	c.OIDC.PublicURL = "https://shop.test"
}

// The payment host serves nothing of the shop to anybody. No other host serves its page.
func TestPayHostIsApart(t *testing.T) {
	t.Parallel()
	w := newFixture(t, withPayHost)
	for _, r := range w.gateway.Routes() {
		if strings.HasPrefix(r.Pattern, "/assets/") {
			continue
		}
		for _, host := range []string{payHost, strings.ToUpper(payHost)} {
			before := len(w.serviceCalls())
			q := w.request(r.Method, target(r, calm), "", validCredentials(w, r))
			q.Host = host
			rec := respond(w.gateway, q)
			require.Contains(t, []int{http.StatusNotFound, http.StatusServiceUnavailable}, rec.Code, r.Pattern) // 503: the pages are not built
			require.NotContains(t, rec.Body.String(), `"code"`, "no answer of the API")
			require.Empty(t, rec.Header().Values("Set-Cookie"))
			require.Len(t, w.serviceCalls(), before, "%s asks a service", r.Pattern)
		}
	}
	for _, host := range []string{"shop.test", "pay.shop.test.evil.test", "pay.shop.test:1234", ""} {
		q := w.request(http.MethodGet, "/toss", "", nil)
		q.Host = host
		require.Equal(t, http.StatusNotFound, respond(w.gateway, q).Code, host)
	}
	for _, host := range []string{payHost, "shop.test"} {
		q := w.request(http.MethodGet, "/toss", "", nil)
		q.Host = host
		h := respond(w.gateway, q).Header()
		require.Equal(t, "DENY", h.Get("X-Frame-Options"))
		require.Contains(t, h.Get("Content-Security-Policy"), "default-src 'none'")
	}
}

// Requests to the payment host must come through the CDN and are limited, like all others.
func TestPayHostIsLimited(t *testing.T) {
	t.Parallel()
	w := newFixture(t, withPayHost, func(c *app.Config, _ *app.Services) {
		c.Limits.PollNetworkRate, c.Limits.PollNetworkBurst = 1, 2
	})
	var codes []int
	for range 3 {
		q := w.request(http.MethodGet, "/toss", "", nil)
		q.Host = payHost
		codes = append(codes, respond(w.gateway, q).Code)
	}
	require.NotEqual(t, http.StatusTooManyRequests, codes[1])
	require.Equal(t, http.StatusTooManyRequests, codes[2])

	w = newFixture(t, withPayHost, func(c *app.Config, _ *app.Services) {
		c.CloudFrontSecret = "an-origin-secret-of-32-bytes-length"
	})
	q := w.request(http.MethodGet, "/toss", "", nil)
	q.Host = payHost
	require.Equal(t, http.StatusForbidden, respond(w.gateway, q).Code)
}

func TestSettingsOfThePayPage(t *testing.T) {
	t.Parallel()
	good := map[string]string{"PAY_HOST": payHost, "TOSS_CLIENT_KEY": "test_ck", "PUBLIC_URL": "https://shop.test"}
	load := func(change map[string]string) error {
		env := environment()
		maps.Copy(env, good)
		maps.Copy(env, change)
		_, err := config.LoadFrom[app.Config](t.Context(), env)
		return err
	}
	require.NoError(t, load(nil))
	require.NoError(t, load(map[string]string{"PAY_HOST": "", "TOSS_CLIENT_KEY": "", "PUBLIC_URL": ""}))
	require.NoError(t, load(map[string]string{"PAY_HOST": "pay.localhost:8080", "SECURE_COOKIES": "false", "TOSS_SCRIPT_URL": "http://127.0.0.1:8094/v2/standard"}))
	for name, values := range map[string][]string{
		"PAY_HOST": {"https://pay.test", "pay.test/toss", "shop.test", "SHOP.test"}, "TOSS_CLIENT_KEY": {""}, "PUBLIC_URL": {""},
		"TOSS_SCRIPT_URL": {"http://js.test/v2", "js.test"},
	} {
		for _, value := range values {
			require.ErrorContains(t, load(map[string]string{name: value}), name, value)
		}
	}
}
