package beacon_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/fairdraw/beacontest"
	"urr.guru/pkg/testkit"
)

func newBeacon(t *testing.T, fill byte, o beacontest.Options) *beacontest.Beacon {
	t.Helper()
	b, err := beacontest.New(slices.Repeat([]byte{fill}, 32), o)
	require.NoError(t, err)
	return b
}

// handlers is an HTTP transport that serves each host name by a handler, without a network.
type handlers map[string]http.Handler

// RoundTrip implements http.RoundTripper. A handler gives up when the request's context ends.
func (h handlers) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	h[r.URL.Host].ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return w.Result(), nil
}

func client(t *testing.T, chain beacon.Chain, h handlers, urls ...string) *beacon.Client {
	t.Helper()
	c, err := beacon.NewClient(chain, urls, &http.Client{Transport: h})
	require.NoError(t, err)
	return c
}

func answering(status int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
}

func TestClientPassesOverWhatFails(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, 7, beacontest.Options{})
	other := newBeacon(t, 8, beacontest.Options{})
	forged, err := json.Marshal(other.Round(5))
	require.NoError(t, err)
	another, err := json.Marshal(b.Round(6))
	require.NoError(t, err)
	for name, bad := range map[string]http.Handler{
		"an error":                 answering(http.StatusBadGateway, "down"),
		"no JSON":                  answering(http.StatusOK, "<html>"),
		"a round of another chain": answering(http.StatusOK, string(forged)),
		"another round":            answering(http.StatusOK, string(another)),
		"too early":                answering(http.StatusTooEarly, ""),
		"an endless answer":        answering(http.StatusOK, strings.Repeat(" ", 65<<10)),
	} {
		c := client(t, b.Chain(), handlers{"bad": bad, "good": b}, "http://bad", "https://good/")
		got, err := c.Get(t.Context(), 5)
		require.NoError(t, err, name)
		require.Equal(t, b.Round(5), got, name)
		_, err = client(t, b.Chain(), handlers{"bad": bad}, "http://bad").Get(t.Context(), 5)
		require.Error(t, err, name)
	}
}

func TestClientLeavesASourceThatHangs(t *testing.T) {
	t.Parallel()
	b := newBeacon(t, 7, beacontest.Options{Now: func() time.Time { return time.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC) }})
	synctest.Test(t, func(t *testing.T) {
		hanging := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		start := time.Now()
		_, err := client(t, b.Chain(), handlers{"a": hanging, "b": b}, "http://a", "http://b").Get(t.Context(), 5)
		require.NoError(t, err)
		require.Equal(t, 5*time.Second, time.Since(start))
	})
}

func TestClientWaitsForTheRound(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))
	b := newBeacon(t, 7, beacontest.Options{Now: clock.Now})
	c := client(t, b.Chain(), handlers{"a": b, "b": b}, "http://a", "http://b")
	next := b.Latest() + 1
	_, err := c.Get(t.Context(), next)
	require.ErrorIs(t, err, beacon.ErrNotPublished)
	clock.Advance(3 * time.Second)
	got, err := c.Get(t.Context(), next)
	require.NoError(t, err)
	require.Equal(t, next, got.Round)
	down := handlers{"a": b, "b": answering(http.StatusInternalServerError, "")}
	_, err = client(t, b.Chain(), down, "http://a", "http://b").Get(t.Context(), next+1)
	require.NotErrorIs(t, err, beacon.ErrNotPublished, "one source is down")
}

// A chain is checked before a draw depends on it.
func TestClientChecksTheChain(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	clock := testkit.NewClock(now)
	b, other := newBeacon(t, 7, beacontest.Options{Now: clock.Now}), newBeacon(t, 8, beacontest.Options{})
	down := answering(http.StatusBadGateway, "")
	check := func(h http.Handler) error {
		return client(t, b.Chain(), handlers{"a": down, "b": h}, "http://a", "http://b").Check(t.Context(), now)
	}
	require.NoError(t, check(b))
	require.ErrorContains(t, client(t, b.Chain(), handlers{"a": down}, "http://a").Check(t.Context(), now), "502")
	require.ErrorIs(t, client(t, b.Chain(), handlers{"a": other}, "http://a").Check(t.Context(), now), beacon.ErrNoSuchChain)

	info, err := json.Marshal(beacon.Info{Scheme: other.Chain().Scheme, PublicKey: other.Chain().PublicKey})
	require.NoError(t, err)
	require.ErrorContains(t, check(answering(http.StatusOK, string(info))), "another chain")
	latest := func(h http.Handler) http.Handler {
		mux := http.NewServeMux()
		mux.Handle("GET /{chain}/info", b)
		mux.Handle("GET /{chain}/public/latest", h)
		return mux
	}
	forged, err := json.Marshal(other.Round(b.Latest()))
	require.NoError(t, err)
	require.ErrorIs(t, check(latest(answering(http.StatusOK, string(forged)))), beacon.ErrSignature)
	for name, tc := range map[string]struct {
		ahead time.Duration
		want  error
	}{
		"of this minute": {-time.Minute, nil}, "of an hour ago": {-time.Hour, beacon.ErrStopped}, "of the future": {time.Hour, beacon.ErrStopped},
	} {
		clock.Set(now.Add(tc.ahead))
		require.ErrorIs(t, check(b), tc.want, name)
	}
}

func TestSourcesCheck(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	b := newBeacon(t, 7, beacontest.Options{Now: func() time.Time { return now }})
	sources := func(h handlers, urls ...string) *beacon.Sources {
		s, err := beacon.NewSources(urls, &http.Client{Transport: h})
		require.NoError(t, err)
		return s
	}
	s := sources(handlers{"a": b}, "http://a")
	require.NoError(t, s.Check(t.Context(), b.Chain(), now))
	round, err := s.Get(t.Context(), b.Chain(), 5)
	require.NoError(t, err)
	require.Equal(t, b.Round(5), round)
	shifted := b.Chain()
	shifted.Genesis += 30 * 24 * 3600
	require.ErrorIs(t, s.Check(t.Context(), shifted, now), beacon.ErrChain, "a genesis that is not the chain's")
	require.ErrorIs(t, s.Check(t.Context(), beacon.Quicknet(), now), beacon.ErrChain, "not published there")
	require.ErrorIs(t, sources(handlers{"a": answering(http.StatusBadGateway, "")}, "http://a").Check(t.Context(), b.Chain(), now), beacon.ErrUnchecked)
	require.ErrorIs(t, sources(nil).Check(t.Context(), b.Chain(), now), beacon.ErrUnchecked, "no URL")
	_, err = beacon.NewSources([]string{"api.drand.sh"}, http.DefaultClient)
	require.Error(t, err)
}

func TestNewClientRefuses(t *testing.T) {
	t.Parallel()
	for _, urls := range [][]string{nil, {""}, {"api.drand.sh"}, {"ftp://api.drand.sh"}, {"https://"}, {"https://api.drand.sh", ":"}} {
		_, err := beacon.NewClient(beacon.Quicknet(), urls, http.DefaultClient)
		require.Error(t, err, urls)
	}
	_, err := beacon.NewClient(beacon.Chain{}, []string{"https://api.drand.sh"}, http.DefaultClient)
	require.Error(t, err)
}
