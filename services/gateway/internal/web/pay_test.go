package web_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/web"
)

var payConfig = web.PayConfig{ClientKey: "test_ck", Script: "https://js.tosspayments.com/v2/standard", Shop: "https://shop.test"}

func payHost(t *testing.T, cfg web.Config) http.Handler {
	t.Helper()
	p, err := web.NewFrom(bundle(), cfg)
	require.NoError(t, err)
	require.NotNil(t, p.Pay)
	return p.Pay
}

// The page depends only on the language, and reads and sets no cookie.
func TestPayPage(t *testing.T) {
	t.Parallel()
	h := payHost(t, web.Config{Pay: payConfig})
	catalogues, err := web.Catalogues()
	require.NoError(t, err)
	for lang, c := range catalogues {
		for path, accept := range map[string]string{"/toss": lang, "/toss?lang=" + lang: "fr"} {
			r := get(h, path, "Accept-Language", accept)
			require.Equal(t, http.StatusOK, r.StatusCode)
			page := body(t, r)
			require.Contains(t, page, `<html lang="`+lang+`">`)
			require.Contains(t, page, c["pay"]["title"])
			require.Contains(t, page, c["common"]["noScript"])
			require.Contains(t, page, `href="https://shop.test"`)
			require.NotRegexp(t, inline, page)
			require.Equal(t, page, body(t, get(h, path, "Accept-Language", accept, "Cookie", "urr-session=x; a=b")))
			require.Empty(t, r.Header.Values("Set-Cookie"))
			raw := regexp.MustCompile(`(?s)id="page">(.*?)</script>`).FindStringSubmatch(page)
			var data map[string]any
			require.NoError(t, json.Unmarshal([]byte(raw[1]), &data))
			require.Equal(t, "test_ck", data["clientKey"])
			require.Equal(t, payConfig.Script, data["script"])
			require.Equal(t, "https://shop.test", data["shop"])
		}
	}
}

// The page can load, call or send a form to no site except the vendor's.
func TestPolicyOfThePayPage(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		payConfig.Script: "default-src 'none'; script-src 'self' https://js.tosspayments.com; style-src 'self'; img-src data: https://*.tosspayments.com; " +
			"connect-src https://*.tosspayments.com; frame-src https://*.tosspayments.com; form-action https://*.tosspayments.com; " +
			"base-uri 'none'; frame-ancestors 'none'; upgrade-insecure-requests",
		"http://127.0.0.1:8094/v2/standard": "default-src 'none'; script-src 'self' http://127.0.0.1:8094; style-src 'self'; img-src data: http://127.0.0.1:8094; " +
			"connect-src http://127.0.0.1:8094; frame-src http://127.0.0.1:8094; form-action http://127.0.0.1:8094; " +
			"base-uri 'none'; frame-ancestors 'none'; upgrade-insecure-requests",
	} {
		cfg := payConfig
		cfg.Script = script
		h := get(payHost(t, web.Config{Secure: true, Pay: cfg}), "/toss").Header
		require.Equal(t, want, h.Get("Content-Security-Policy"))
		require.Equal(t, "strict-origin", h.Get("Referrer-Policy"))
		require.Equal(t, "same-origin-allow-popups", h.Get("Cross-Origin-Opener-Policy"))
		require.Equal(t, "nosniff", h.Get("X-Content-Type-Options"))
	}
}

// The payment host serves only one page and the files that it loads.
func TestPayHostServesNothingElse(t *testing.T) {
	t.Parallel()
	h := payHost(t, web.Config{Pay: payConfig})
	for _, path := range []string{"/assets/toss-E.js", "/assets/style-C.css"} {
		require.Equal(t, http.StatusOK, get(h, path).StatusCode, path)
	}
	for _, path := range []string{"/", "/my", "/toss/", "/toss/x", "/api/v1/auth/me", "/assets/events-A.js", "/assets/", "/robots.txt", "/health"} {
		require.Equal(t, http.StatusNotFound, get(h, path).StatusCode, path)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/toss", http.NoBody))
	require.Equal(t, http.StatusMethodNotAllowed, w.Code)
	p, err := web.NewFrom(bundle(), web.Config{})
	require.NoError(t, err)
	require.Nil(t, p.Pay, "not configured")
}
