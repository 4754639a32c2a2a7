package session_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/claims"
	"urr.guru/pkg/redis/redistest"
	"urr.guru/pkg/token/tokentest"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/oidc"
	"urr.guru/services/gateway/internal/revoked"
	"urr.guru/services/gateway/internal/session"
)

func verifier(t *testing.T) *identity.Verifier {
	t.Helper()
	k := tokentest.KeySet(t, "a-secret-of-at-least-thirty-two-bytes")
	v, err := identity.New(identity.Keys{Session: k, Visitor: k}, 10, revoked.New(nil, "", time.Hour, time.Now), time.Now)
	require.NoError(t, err)
	return v
}

func handlers(t *testing.T, cfg session.Config) *session.Handlers {
	t.Helper()
	cfg.Now = time.Now
	h, err := session.New(cfg)
	require.NoError(t, err)
	return h
}

// provider refuses every code, and counts the codes.
type provider struct{ codes int }

func (p *provider) Begin(context.Context, *claims.SignIn) (string, error) { return "", nil }
func (p *provider) EndSession(context.Context, string) (string, error)    { return "", nil }
func (p *provider) Complete(context.Context, *claims.SignIn, string) (*oidc.User, error) {
	p.codes++
	return nil, oidc.ErrInvalid
}

// An attempt causes one call of the provider, however often and at whichever gateway the browser
// returns. Without Redis it causes one call per gateway, and users can still sign in.
func TestAttemptsCountOnce(t *testing.T) {
	t.Parallel()
	tokens := verifier(t)
	closedRedis := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	require.NoError(t, closedRedis.Close())
	for name, c := range map[string]struct {
		rdb  redis.UniversalClient
		want int
	}{"redis": {redistest.Open(t), 1}, "redis away": {closedRedis, 2}, "no redis": {nil, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			attempt := claims.NewSignIn("/my", time.Now())
			signed, err := tokens.SignAttempt(attempt)
			require.NoError(t, err)
			p, answer := &provider{}, url.Values{"code": {"made up"}, "state": {attempt.State}}
			cfg := session.Config{Tokens: tokens, Log: slog.New(slog.DiscardHandler), Redis: c.rdb, Provider: p, Cookies: identity.Cookies{Now: time.Now}}
			gateways := []*session.Handlers{handlers(t, cfg), handlers(t, cfg)}
			for i := range 20 {
				r := httptest.NewRequest(http.MethodGet, "/?"+answer.Encode(), nil)
				r.Header.Set("Cookie", identity.AttemptCookie(attempt.State)+"="+signed)
				rec, before := httptest.NewRecorder(), p.codes
				require.NoError(t, gateways[i%2].Callback(rec, r, &edge.Request{Header: r.Header}))
				want := "/login?failed=expired&returnTo=%2Fmy"
				if p.codes > before {
					want = "/login?failed=invalid&returnTo=%2Fmy"
				}
				require.Equal(t, want, rec.Header().Get("Location"))
			}
			require.Equal(t, c.want, p.codes)
		})
	}
}

// A page that redirects to the sign-in again and again does not make the headers too large.
func TestAttemptsOfABrowserAreFew(t *testing.T) {
	t.Parallel()
	home, err := url.Parse("https://shop.example")
	require.NoError(t, err)
	h := handlers(t, session.Config{
		Tokens: verifier(t), Log: slog.New(slog.DiscardHandler), Provider: &provider{}, Home: home,
		Cookies: identity.Cookies{Now: time.Now, Secure: true},
	})
	jar := map[string]string{}
	for range 20 {
		r := httptest.NewRequest(http.MethodGet, "https://shop.example/api/v1/auth/login", nil)
		for name, value := range jar {
			r.AddCookie(&http.Cookie{Name: name, Value: value})
		}
		rec := httptest.NewRecorder()
		require.NoError(t, h.Login(rec, r, &edge.Request{Header: r.Header}))
		for _, c := range rec.Result().Cookies() {
			if jar[c.Name] = c.Value; c.MaxAge < 0 {
				delete(jar, c.Name)
			}
		}
		require.LessOrEqual(t, len(jar), 3)
		require.NotEmpty(t, jar)
	}
}

// Many failing sign-ins do not overload the log.
func TestFailuresAreLoggedWithinALimit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
	h := handlers(t, session.Config{Tokens: verifier(t), Log: log})
	synctest.Test(t, func(t *testing.T) {
		for second := range 2 {
			for range 100 {
				require.NoError(t, h.Callback(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil), &edge.Request{}))
			}
			require.Equal(t, 10*(second+1), strings.Count(out.String(), "sign-in failed"))
			time.Sleep(time.Second)
		}
		require.Contains(t, out.String(), "suppressed=90")
	})
}
