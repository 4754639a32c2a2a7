package cluster_test

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/rs/zerolog"
	"github.com/stretchr/testify/require"
)

// proxies returns the server of toxiproxy. Its metrics are not collected.
var proxies = sync.OnceValue(func() *toxiproxy.ApiServer {
	return toxiproxy.NewServer(toxiproxy.NewMetricsContainer(prometheus.NewRegistry()), zerolog.Nop())
})

// forward forwards connections from one address to another until the test ends: the backends listen
// on loopback only, and pods connect from outside. The returned proxy can be stopped and started.
func forward(t *testing.T, from, to string) *toxiproxy.Proxy {
	t.Helper()
	proxy := toxiproxy.NewProxy(proxies(), from, from, to)
	require.NoError(t, proxy.Start())
	t.Cleanup(proxy.Stop)
	return proxy
}

// TestForwardEndsWithTheTest ends a test that has an open connection, as a failed test may.
func TestForwardEndsWithTheTest(t *testing.T) {
	t.Parallel()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer server.Close()

	var client net.Conn
	t.Run("open", func(t *testing.T) {
		proxy := forward(t, "127.0.0.1:0", server.Addr().String())
		client, err = net.Dial("tcp", proxy.Listen)
		require.NoError(t, err)
		accepted, err := server.Accept()
		require.NoError(t, err)
		_, err = accepted.Write([]byte("x"))
		require.NoError(t, err)
		_, err = io.ReadFull(client, make([]byte, 1))
		require.NoError(t, err)
	})
	defer client.Close()
	_, err = client.Read(make([]byte, 1))
	require.Error(t, err)
}
