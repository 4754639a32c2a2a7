package bench

import (
	"bytes"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestCPUTimeCountsWork(t *testing.T) {
	t.Parallel()
	before, err := cpuTime(os.Getpid())
	require.NoError(t, err)
	for after := before; after-before < 10*time.Millisecond; { // ends only if the work below is counted
		bytes.Repeat([]byte("x"), 1<<20)
		after, err = cpuTime(os.Getpid())
		require.NoError(t, err)
	}
	_, err = cpuTime(1 << 30)
	require.ErrorContains(t, err, "does not run")
}

func TestBareServerRepeatsTheResponse(t *testing.T) {
	t.Parallel()
	in, control := io.Pipe()
	out, printed := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		_, err := RunBareServer(t.Context(), bareArgument, in, printed)
		ended <- err
	}()
	go func() {
		_, _ = io.WriteString(control, `{"header": {"X-One": ["1"]}, "body": "e30=", "status": 200}`+"\n")
	}()
	addr := make([]byte, 64)
	n, err := out.Read(addr)
	require.NoError(t, err)

	server := strings.TrimSpace(string(addr[:n]))
	requests := [][]byte{[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), []byte("GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n")}
	answer, size, err := sendOnce(t.Context(), server, requests[0])
	require.NoError(t, err)
	require.Equal(t, "{} 1", string(answer.Body)+" "+answer.Header.Get("X-One"))
	require.Greater(t, size, 50)
	g := generator{addr: server, next: roundRobin(requests)}
	require.NoError(t, g.open(t.Context(), 2))
	require.NoError(t, g.send(t.Context(), 5, http.StatusOK))
	require.ErrorContains(t, g.send(t.Context(), 2, http.StatusCreated), ": status 200")
	require.NoError(t, g.close())
	require.NoError(t, control.Close())
	require.NoError(t, <-ended)
}

func TestMissingResponseAndMissingServerAreErrors(t *testing.T) {
	t.Parallel()
	in, control := io.Pipe()
	require.NoError(t, control.Close())
	isBare, err := RunBareServer(t.Context(), bareArgument, in, io.Discard)
	require.True(t, isBare)
	require.ErrorContains(t, err, "read the configuration")
	isBare, err = RunBareServer(t.Context(), "nothing", in, io.Discard)
	require.NoError(t, err)
	require.False(t, isBare)
	g := generator{addr: "127.0.0.1:1"}
	require.ErrorContains(t, g.open(t.Context(), 1), "connect")
}

func TestUnknownRowsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Options{Rows: []string{"serving", "nothing"}})
	require.ErrorContains(t, err, `no row "nothing"; the rows are serving, queue_status_256`)
}
