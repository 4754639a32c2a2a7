package fakes_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/payment/fakes"
)

const call = "POST /add"

// provider is a provider with one call, add. It counts how often the call takes effect.
type provider struct {
	t     *testing.T
	clock *testkit.Clock
	calls *fakes.Calls
	url   string
	acted int
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t, clock: testkit.NewClock(time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC))}
	p.calls = fakes.NewCalls(fakes.Options{
		Now: p.clock.Now, KeyLife: time.Hour, Compares: true, Mismatch: fakes.JSON(400, "other"), Running: fakes.JSON(409, "running"),
		Internal: fakes.JSON(500, "internal"), TooMany: fakes.JSON(429, "many"),
	})
	mux := http.NewServeMux()
	p.calls.Handle(mux, call, func(*http.Request, []byte) fakes.Reply {
		p.acted++
		return fakes.JSON(200, p.acted)
	})
	server := httptest.NewServer(mux)
	server.Config.SetKeepAlivesEnabled(false) // else the transport repeats calls without an answer
	t.Cleanup(server.Close)
	p.url = server.URL
	return p
}

// add makes the call and returns the answer; empty: the connection was dropped.
func (p *provider) add(key, body string) string {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), http.MethodPost, p.url+"/add", strings.NewReader(body))
	require.NoError(p.t, err)
	req.Header.Set("Idempotency-Key", key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	got, err := io.ReadAll(resp.Body)
	require.NoError(p.t, err)
	require.NoError(p.t, resp.Body.Close())
	return string(got)
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for fault, want := range map[fakes.Fault]struct {
		answer, again string
		acted         int
	}{
		"": {"1", "1", 1}, fakes.Lost: {"", "1", 1}, fakes.Dropped: {"", "1", 1}, fakes.Broken: {`"internal"`, `"internal"`, 1},
		fakes.Failed: {`"internal"`, `"internal"`, 0}, fakes.Limited: {`"many"`, "1", 1}, fakes.Late: {"", "1", 1},
	} {
		p := newProvider(t)
		p.calls.Inject(call, fault)
		require.Equal(t, want.answer, p.add("k", "a=1"), "%s", fault)
		require.Equal(t, want.again, p.add("k", "a=1"), "%s", fault)
		p.calls.Arrive()
		require.Equal(t, want.acted, p.acted, "%s", fault)
	}
	p := newProvider(t)
	p.calls.Inject(call, fakes.Garbled)
	require.Contains(t, p.add("k", "a=1"), "<html>")
}

func TestKeys(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	release, first := p.calls.Block(call), make(chan string)
	go func() { first <- p.add("k", "a=1") }()
	testkit.Until(t, func() bool { return p.calls.Count(call) == 1 }, "the first call")
	release()
	require.Equal(t, "1", <-first)
	require.Equal(t, `"other"`, p.add("k", "a=2"))
	p.clock.Advance(time.Hour)
	require.Equal(t, "2", p.add("k", "a=2"), "the key is forgotten")
	require.Equal(t, "3", p.add("", "a=2"), "no key")
}

func TestSharesAreChecked(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	require.Error(t, p.calls.SetFaults(fakes.Faults{Lost: 0.6, Late: 0.6}))
	require.Error(t, p.calls.SetFaults(fakes.Faults{Lost: -1}))
	require.NoError(t, p.calls.SetFaults(fakes.Faults{Dropped: 1}))
	require.Empty(t, p.add("k", "a=1"))
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	hooks := fakes.NewWebhooks(p.calls, func(body []byte, _ time.Time) map[string]string { return map[string]string{"sum": string(body)} })
	bodies := func() (list []string) {
		for _, x := range hooks.Take() {
			list = append(list, string(x.Body)+"|"+x.Header["sum"])
		}
		return list
	}
	for _, f := range []struct {
		faults fakes.Faults
		want   []string
	}{
		{fakes.Faults{}, []string{"a|a"}}, {fakes.Faults{Missing: 1}, nil}, {fakes.Faults{Repeated: 1}, []string{"a|a", "a|a"}},
		{fakes.Faults{Forged: 1}, []string{"a|another a", "a|a"}},
	} {
		require.NoError(t, p.calls.SetFaults(f.faults))
		hooks.Send([]byte("a"))
		require.Equal(t, f.want, bodies())
	}
	require.NoError(t, p.calls.SetFaults(fakes.Faults{Delayed: 1, LateFor: 1e9}))
	hooks.Send([]byte("a"))
	require.NoError(t, p.calls.SetFaults(fakes.Faults{}))
	hooks.Send([]byte("b"))
	require.Equal(t, []string{"b|b"}, bodies())
	p.clock.Advance(time.Second)
	require.Equal(t, []string{"a|a"}, bodies())
}

// Webhooks that are not accepted are sent again.
func TestWebhooksAreSent(t *testing.T) {
	t.Parallel()
	p, got := newProvider(t), make(chan string, 8)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- string(body) + "|" + r.Header.Get("Sum")
		if len(got) == 1 {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(receiver.Close)
	hooks := fakes.NewWebhooks(p.calls, func([]byte, time.Time) map[string]string { return map[string]string{"sum": "s"} })
	hooks.Send([]byte("a"))
	hooks.Send([]byte("b"))
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { defer close(done); hooks.Run(ctx, receiver.URL, receiver.Client()) }()
	testkit.Until(t, func() bool { p.clock.Advance(time.Second); return len(got) == 3 }, "three webhooks")
	cancel()
	<-done
}
