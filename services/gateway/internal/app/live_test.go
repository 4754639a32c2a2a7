package app_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
	"urr.guru/services/gateway/internal/app"
)

// eventReader reads the server-sent events of a stream.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
}

// event returns the name ("" for none) and the data of the next event; ok is false at the end of the
// stream.
func (l *eventReader) event() (name string, data map[string]any, ok bool) {
	l.t.Helper()
	for l.lines.Scan() {
		line := l.lines.Text()
		if n, found := strings.CutPrefix(line, "event: "); found {
			name = n
		}
		if d, found := strings.CutPrefix(line, "data: "); found {
			require.NoError(l.t, json.Unmarshal([]byte(d), &data))
			return name, data, true
		}
	}
	return "", nil, false
}

// liveServer serves the gateway with an HTTP server whose time-outs are shorter than the time
// between two events.
func liveServer(t *testing.T, w *fixture) (addr string, srv *http.Server) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	srv = app.Server(w.gateway.Handler)
	srv.ReadTimeout, srv.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond
	srv.RegisterOnShutdown(w.gateway.EndStreams)
	done := make(chan error, 1)
	go func() { done <- srv.Serve(l) }()
	t.Cleanup(func() {
		require.NoError(t, srv.Close())
		require.ErrorIs(t, <-done, http.ErrServerClosed)
	})
	return "http://" + l.Addr().String(), srv
}

// openStream opens a stream. It tries again if a slow machine has exceeded the server's time-out of
// 100 ms.
func openStream(req *http.Request) (answer *http.Response, err error) {
	for {
		answer, err = http.DefaultClient.Do(req)
		if !errors.Is(err, io.EOF) || req.Context().Err() != nil {
			return answer, err
		}
	}
}

func listen(t *testing.T, addr, event string, c credentials) *eventReader {
	t.Helper()
	ctx, cancel := testkit.Context(t)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, addr+"/api/v1/admin/live/"+event, http.NoBody)
	require.NoError(t, err)
	for name, value := range c {
		req.Header.Set(name, value)
	}
	answer, err := openStream(req)
	require.NoError(t, err)
	t.Cleanup(func() { _ = answer.Body.Close() })
	require.Equal(t, http.StatusOK, answer.StatusCode)
	require.Equal(t, "text/event-stream", answer.Header.Get("Content-Type"))
	require.Equal(t, "no-store", answer.Header.Get("Cache-Control"))
	return &eventReader{t: t, lines: bufio.NewScanner(answer.Body)}
}

// Operators get the figures of an event each second, without those of a service that does not
// answer. The stream ends with the session.
func TestLiveFigures(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	addr, _ := liveServer(t, w)
	admin := w.session(alice, "admin")
	l := listen(t, addr, busy, admin)
	// A slow machine may answer for some services in time and not for others.
	_, figures, ok := l.event()
	for ok && len(figures) < 8 {
		_, figures, ok = l.event()
	}
	require.True(t, ok)
	require.Equal(t, map[string]any{
		"at": "2026-03-01T10:00:00.000Z", "serving": 100.0, "roomWaiting": 4900.0, "waiting": 30.0, "active": 20.0, "sold": 30.0, "holds": 10.0,
		"failures": 7.0,
	}, figures)
	require.Equal(t, alice, w.queue.of("GetLine")[0].caller.GetUserId())

	w.queue.noLines.Store(true)
	for ok && figures["waiting"] != nil {
		_, figures, ok = l.event()
	}
	require.True(t, ok, "the stream outlives the time-outs of the listener")
	require.NotContains(t, figures, "active")
	for ok && figures["sold"] == nil {
		_, figures, ok = l.event()
	}
	require.InDelta(t, 30, figures["sold"], 0)

	require.Equal(t, http.StatusNoContent, w.do(http.MethodPost, "/api/v1/admin/sessions/revoke", `{"userId":"`+alice+`"}`, admin).Code)
	name := ""
	for ok && name == "" {
		name, figures, ok = l.event()
	}
	require.Equal(t, "end", name)
	require.Equal(t, map[string]any{"code": "SESSION_INVALID"}, figures)
	_, _, ok = l.event()
	require.False(t, ok)
}

// A shutdown ends the streams of live figures, so a rolling update does not wait for their readers.
func TestLiveFiguresEndWithTheServer(t *testing.T) {
	t.Parallel()
	w := newFixture(t)
	addr, srv := liveServer(t, w)
	l := listen(t, addr, calm, w.session(alice, "admin"))
	_, figures, ok := l.event()
	require.True(t, ok)
	require.NotContains(t, figures, "serving", "the event has no waiting room")
	ctx, cancel := testkit.Context(t)
	defer cancel()
	require.NoError(t, srv.Shutdown(ctx))
	for ok {
		_, _, ok = l.event()
	}
}
