package cluster_test

import (
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// forward forwards connections from one address to another until the test ends: the backends listen
// on loopback only, and pods connect from outside.
func forward(t *testing.T, from, to string) {
	t.Helper()
	listener, err := net.Listen("tcp", from)
	require.NoError(t, err)
	var open sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		open.Wait()
	})
	open.Go(func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			open.Go(func() { pipe(t.Context(), in, to) })
		}
	})
}

// pipe copies both ways until either side or ctx ends.
func pipe(ctx context.Context, in net.Conn, to string) {
	defer func() { _ = in.Close() }()
	out, err := (&net.Dialer{}).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	defer func() { _ = out.Close() }()
	defer context.AfterFunc(ctx, func() { _, _ = in.Close(), out.Close() })()
	ended := make(chan struct{}, 2)
	for _, way := range [][2]net.Conn{{in, out}, {out, in}} {
		go func() {
			_, _ = io.Copy(way[1], way[0])
			ended <- struct{}{}
		}()
	}
	<-ended
	_, _ = in.Close(), out.Close()
	<-ended
}

// A failed test must end too, even if pods keep connections open.
func TestForwardEndsWithTheTest(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	from := free.Addr().String()
	require.NoError(t, free.Close())

	var client net.Conn
	t.Run("open", func(t *testing.T) {
		forward(t, from, server.Addr().String())
		client, err = net.Dial("tcp", from)
		require.NoError(t, err)
		far, err := server.Accept()
		require.NoError(t, err)
		_, err = far.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(client, make([]byte, 1))
		require.NoError(t, err)
	})
	defer client.Close()
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err)
}
