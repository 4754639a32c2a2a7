package bench

import (
	"bytes"
	"io"
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
	for after := before; after-before < 10*time.Millisecond; { // it ends only if work is counted
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
		_, err := Serve(t.Context(), bareArgument, in, printed)
		ended <- err
	}()
	go func() { _, _ = io.WriteString(control, `{"header": {"X-One": ["1"]}, "body": "e30="}`+"\n") }()
	addr := make([]byte, 64)
	n, err := out.Read(addr)
	require.NoError(t, err)

	l, err := connect(t.Context(), strings.TrimSpace(string(addr[:n])), 2, [][]byte{[]byte("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"), []byte("GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n")})
	require.NoError(t, err)
	require.NoError(t, l.send(t.Context(), 5))
	require.Equal(t, 5, l.conns[0].next+l.conns[1].next)
	require.Equal(t, "{}", l.conns[0].body.String())
	require.NoError(t, l.close())
	require.NoError(t, control.Close())
	require.NoError(t, <-ended)
}

func TestMissingResponseAndMissingServerAreErrors(t *testing.T) {
	t.Parallel()
	in, control := io.Pipe()
	require.NoError(t, control.Close())
	known, err := Serve(t.Context(), bareArgument, in, io.Discard)
	require.True(t, known)
	require.ErrorContains(t, err, "read the configuration")
	known, err = Serve(t.Context(), "nothing", in, io.Discard)
	require.NoError(t, err)
	require.False(t, known)
	_, err = connect(t.Context(), "127.0.0.1:1", 1, nil)
	require.ErrorContains(t, err, "connect")
}

func TestUnknownRowsAreRefused(t *testing.T) {
	t.Parallel()
	_, err := Run(t.Context(), Options{Rows: []string{"serving", "nothing"}})
	require.ErrorContains(t, err, `no row "nothing"; the rows are serving, tier1_check`)
}
