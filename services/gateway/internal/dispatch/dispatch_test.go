package dispatch_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/baggage"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
	"urr.guru/pkg/token"
	"urr.guru/services/gateway/internal/dispatch"
	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/identity"
	"urr.guru/services/gateway/internal/limit"
	"urr.guru/services/gateway/internal/problem"
	"urr.guru/services/gateway/internal/revoked"
)

// build makes a Dispatcher with one route per handler. Ids that begin with "fast" are of the fast
// path. Ids that begin with "full" refuse all requests.
func build(t *testing.T, handlers map[string]edge.Handler) (*dispatch.Dispatcher, *strings.Builder) {
	t.Helper()
	var routes []*edge.Route
	for id, h := range handlers {
		route := &edge.Route{ID: id, Method: http.MethodGet, Pattern: "/" + id, Access: edge.Public, Page: true, FastPath: strings.HasPrefix(id, "fast"), Traced: strings.HasSuffix(id, "traced"), Handler: h}
		if strings.HasPrefix(id, "full") {
			route.Refusal = func() error { return errs.ErrOverloaded.WithRetry(2 * time.Second) }
		}
		routes = append(routes, route)
	}
	table, err := edge.NewTable(routes...)
	require.NoError(t, err)
	keys, err := token.ParseKeySet(config.Secret("a-secret-of-at-least-thirty-two-bytes"))
	require.NoError(t, err)
	now := testkit.NewClock(time.Unix(1_700_000_000, 0)).Now
	tokens, err := identity.New(identity.Keys{Session: keys, Visitor: keys}, 10, revoked.New(nil, "", time.Hour, now), now)
	require.NoError(t, err)
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	f, err := dispatch.New(dispatch.Config{
		Table: table, Guard: &edge.Guard{Tokens: tokens}, Tokens: tokens, Limits: limit.New(limit.Config{}, nil, now),
		Problems: problem.New(func(*http.Request) string { return "en" }, log), Log: log,
	})
	require.NoError(t, err)
	return f, &out
}

// A traced route of the fast path has a span while tracing is on. Not parallel: the provider of
// tracers is global.
func TestTracedRoutes(t *testing.T) { //nolint:paralleltest // see above
	ok := func(w http.ResponseWriter, _ *http.Request, _ *edge.Request) error {
		w.WriteHeader(http.StatusOK)
		return nil
	}
	handlers := map[string]edge.Handler{"fast": ok, "fast-traced": ok, "regular": ok}
	get := func(f http.Handler, path string) string { return get(f, path).Header().Get("X-Request-Id") }

	untraced, _ := build(t, handlers)
	require.Empty(t, get(untraced, "/fast-traced"), "on the fast path")

	spans, provider := tracetest.NewSpanRecorder(), otel.GetTracerProvider()
	t.Cleanup(func() { otel.SetTracerProvider(provider) })
	otel.SetTracerProvider(trace.NewTracerProvider(trace.WithSpanProcessor(spans)))
	traced, _ := build(t, handlers)
	require.Empty(t, get(traced, "/fast"))
	require.NotEmpty(t, get(traced, "/fast-traced"))
	require.NotEmpty(t, get(traced, "/regular"))
	var names []string
	for _, s := range spans.Ended() {
		names = append(names, s.Name())
	}
	require.Equal(t, []string{"GET /fast-traced", "GET /regular"}, names)
}

func get(f http.Handler, path string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	f.ServeHTTP(rec, httptest.NewRequest(http.MethodGet, path, nil))
	return rec
}

func TestPanicBecomesAnError(t *testing.T) {
	t.Parallel()
	panics := func(http.ResponseWriter, *http.Request, *edge.Request) error { panic("secret detail") }
	f, log := build(t, map[string]edge.Handler{"fast": panics, "regular": panics})
	for _, path := range []string{"/fast", "/regular"} {
		rec := get(f, path)
		require.Equal(t, http.StatusInternalServerError, rec.Code)
		var doc map[string]any
		require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
		require.Equal(t, "INTERNAL", doc["code"])
		require.NotContains(t, rec.Body.String(), "secret detail")
		require.Equal(t, rec.Header().Get("X-Request-Id"), doc["requestId"])
	}
	require.Contains(t, log.String(), "secret detail")
	require.Contains(t, log.String(), "dispatch_test.go", "the log has the stack")

	abort, _ := build(t, map[string]edge.Handler{"fast": func(http.ResponseWriter, *http.Request, *edge.Request) error { panic(http.ErrAbortHandler) }})
	require.PanicsWithValue(t, http.ErrAbortHandler, func() { get(abort, "/fast") })
}

// Under overload a request is refused before anything is done for it.
func TestOverloadedRouteRefuses(t *testing.T) {
	t.Parallel()
	f, _ := build(t, map[string]edge.Handler{"full": func(http.ResponseWriter, *http.Request, *edge.Request) error { panic("handled") }})
	rec := get(f, "/full?unknown=1") // a query that the checks refuse
	require.Equal(t, http.StatusTooManyRequests, rec.Code)
	require.Equal(t, "2", rec.Header().Get("Retry-After"))
	require.Equal(t, "nosniff", rec.Header().Get("X-Content-Type-Options"))
	var doc map[string]any
	require.NoError(t, json.Unmarshal(rec.Body.Bytes(), &doc))
	require.Equal(t, "OVERLOADED", doc["code"])
	require.Equal(t, rec.Header().Get("X-Request-Id"), doc["requestId"])
}

// A refusal from memory counts as a poll. Beyond the limit it gives the caller no cookie.
func TestLimitedRefusalGivesNoCookie(t *testing.T) {
	t.Parallel()
	f, _ := build(t, map[string]edge.Handler{"regular": func(http.ResponseWriter, *http.Request, *edge.Request) error { panic("handled") }})
	f.Limits = limit.New(limit.Config{Keys: 10, Polls: limit.Rules{Network: limit.RateRule{Rate: 0.1, Burst: 2}}}, nil, time.Now)
	f.Table.Routes()[0].RefusalFromMemory = func(w http.ResponseWriter, _ *edge.Request) error {
		http.SetCookie(w, &http.Cookie{Name: "id", Value: "1"})
		return errs.ErrAskLater
	}
	for i := range 10 {
		rec := get(f, "/regular")
		require.Equal(t, http.StatusTooManyRequests, rec.Code)
		require.Equal(t, i < 2, rec.Header().Get("Set-Cookie") != "", "request %d", i)
	}
}

// Only a browser that has gone away gets CANCELED. Another may ask again.
func TestCallGivenUpInside(t *testing.T) {
	t.Parallel()
	handler := func(http.ResponseWriter, *http.Request, *edge.Request) error { return errs.ErrCanceled }
	f, _ := build(t, map[string]edge.Handler{"fast": handler, "regular": handler})
	gone, leave := context.WithCancel(t.Context())
	leave()
	for _, path := range []string{"/fast", "/regular"} {
		rec := get(f, path)
		require.Equal(t, http.StatusServiceUnavailable, rec.Code)
		require.Equal(t, "1", rec.Header().Get("Retry-After"))
		rec = httptest.NewRecorder()
		f.ServeHTTP(rec, httptest.NewRequestWithContext(gone, http.MethodGet, path, http.NoBody))
		require.Equal(t, 499, rec.Code)
	}
}

func TestGeneralRequestsHaveADeadline(t *testing.T) {
	t.Parallel()
	var left time.Duration
	f, _ := build(t, map[string]edge.Handler{"regular": func(_ http.ResponseWriter, r *http.Request, q *edge.Request) error {
		end, ok := r.Context().Deadline()
		require.True(t, ok)
		left = time.Until(end)
		require.NotEmpty(t, q.ID)
		return errs.ErrTryAgain
	}})
	synctest.Test(t, func(t *testing.T) { // no time passes while it is served
		require.Equal(t, http.StatusConflict, get(f, "/regular").Code)
		require.Equal(t, edge.DefaultTimeout, left)
	})
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	noop := func(http.ResponseWriter, *http.Request, *edge.Request) error { return nil }
	for name, tc := range map[string]struct {
		handler edge.Handler
		trusted []string
		want    string
	}{
		"no handler":     {nil, nil, "has no handler"},
		"trusted origin": {noop, []string{"shop.example"}, "shop.example"},
	} {
		table, err := edge.NewTable(&edge.Route{ID: "a", Method: http.MethodGet, Pattern: "/a", Access: edge.Public, Handler: tc.handler})
		require.NoError(t, err)
		_, err = dispatch.New(dispatch.Config{Table: table, Trusted: tc.trusted})
		require.ErrorContains(t, err, tc.want, name)
	}
}

// The baggage of a client is dropped, since it would be sent on with every call. The trace context
// is kept as a link.
func TestClientBaggageIsDropped(t *testing.T) {
	t.Parallel()
	otel.SetTextMapPropagator(propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{}))
	seen := make(chan string, 2)
	record := func(_ http.ResponseWriter, r *http.Request, _ *edge.Request) error {
		seen <- baggage.FromContext(r.Context()).String()
		return nil
	}
	f, _ := build(t, map[string]edge.Handler{"fast": record, "regular": record})
	for _, path := range []string{"/fast", "/regular"} {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Baggage", "user=root,blob="+strings.Repeat("x", 1000))
		f.ServeHTTP(httptest.NewRecorder(), r)
		require.Empty(t, <-seen, path)
	}
}
