package captcha_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/gateway/internal/captcha"
)

var address = netip.MustParseAddr("192.0.2.1")

func provider(t *testing.T, answer http.HandlerFunc) *captcha.Provider {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return captcha.New(captcha.Settings{VerifyURL: server.URL, Secret: "first"})
}

func TestVerify(t *testing.T) {
	t.Parallel()
	secret := "first"
	p := provider(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.FormValue("secret") != secret || r.FormValue("remoteip") != address.String() {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		fmt.Fprintf(w, `{"success":%t,"error-codes":[]}`, r.FormValue("response") == "good")
	})
	for token, want := range map[string]bool{"good": true, "bad": false, "": false, strings.Repeat("a", 5000): false} {
		passed, err := p.Verify(t.Context(), token, address)
		require.NoError(t, err)
		require.Equal(t, want, passed, "%.20s", token)
	}
	secret = "second"
	_, err := p.Verify(t.Context(), "good", address)
	require.Error(t, err)
	p.SetSecret("second")
	passed, err := p.Verify(t.Context(), "good", address)
	require.NoError(t, err)
	require.True(t, passed)
	require.Nil(t, captcha.New(captcha.Settings{}))
}

// An answer without a verdict is an error, neither a pass nor a failure.
func TestNoVerdict(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]http.HandlerFunc{
		"an error":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"another form": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}`) },
		"a page":       func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `<html>`) },
		"a redirection": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
		},
		"an end": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
	} {
		_, err := provider(t, answer).Verify(t.Context(), "good", address)
		require.Error(t, err, name)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	good := captcha.Settings{VerifyURL: "https://provider.example/siteverify", Secret: "s", Page: "/test"}
	for missing, change := range map[string]func(*captcha.Settings){
		"":                   func(*captcha.Settings) {},
		"CAPTCHA_VERIFY_URL": func(s *captcha.Settings) { s.VerifyURL = "provider.example" },
		"CAPTCHA_SECRET":     func(s *captcha.Settings) { s.Secret = "" },
		"CAPTCHA_PAGE":       func(s *captcha.Settings) { s.Page = "javascript:alert(1)" },
	} {
		s := good
		change(&s)
		if missing == "" {
			require.NoError(t, s.Validate())
			continue
		}
		require.ErrorContains(t, s.Validate(), missing)
	}
	require.NoError(t, (&captcha.Settings{}).Validate())
}
