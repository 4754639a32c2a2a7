package bench

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestReadStatusReadsWholeResponses(t *testing.T) {
	t.Parallel()
	in := bufio.NewReader(strings.NewReader("HTTP/1.1 201 Created\r\nA: b\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 304 Not Modified\r\nETag: x\r\n\r\nHTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n"))
	for _, want := range []int{201, 304, 429} {
		status, err := readStatus(in)
		require.NoError(t, err)
		require.Equal(t, want, status)
	}
	for _, bad := range []string{"", "HTTP/1.1 200 OK\r\n\r\n", "SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab"} {
		_, err := readStatus(bufio.NewReader(strings.NewReader(bad)))
		require.Error(t, err, bad)
	}
}

// serve responds with 201 to every second request, and with 429 to the others.
func serve(t *testing.T) (addr string, requests *atomic.Int64) {
	t.Helper()
	requests = new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if requests.Add(1)%2 == 0 {
			w.WriteHeader(http.StatusCreated)
			return
		}
		http.Error(w, "no", http.StatusTooManyRequests)
	}))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String(), requests
}

func TestGeneratorSendsAtARateAndWhenAnswered(t *testing.T) {
	t.Parallel()
	addr, requests := serve(t)
	g := generator{addr: addr, next: func() []byte { return []byte("POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n") }}
	for name, load := range map[string]func(time.Time) ([]timedResponse, error){
		"at a rate":     func(until time.Time) ([]timedResponse, error) { return g.sendAtRate(t.Context(), 2000, until) },
		"when answered": func(until time.Time) ([]timedResponse, error) { return g.saturate(t.Context(), until) },
	} {
		require.NoError(t, g.open(t.Context(), 5), name)
		before := requests.Load()
		began := time.Now()
		samples, err := load(began.Add(200 * time.Millisecond))
		require.NoError(t, err, name)
		require.NoError(t, g.close(), name)
		require.Len(t, samples, int(requests.Load()-before), name)
		f := summarizeLoad(samples, began, time.Now())
		require.Zero(t, f.other, name)
		if len(samples) > 0 { // on a busy machine, nothing may have been sent in time
			require.InDelta(t, f.offered/2, f.granted, f.offered/float64(len(samples)), name)
		}
	}
}

func TestGeneratorReportsBrokenConnections(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(s.Close)
	g := generator{addr: s.Listener.Addr().String(), next: func() []byte { return []byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") }}
	require.NoError(t, g.open(t.Context(), 1))
	_, err := g.saturate(t.Context(), time.Now().Add(time.Hour))
	require.ErrorContains(t, err, "read the response")
	require.NoError(t, g.close())
}
