package backendtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddr is host:port for a server of the test's own. The port was free a moment ago, of a
// loopback address at which others neither listen nor connect, so that it still is when the server
// comes, and when it comes back.
func FreeAddr(t testing.TB) string {
	t.Helper()
	host := fmt.Sprintf("127.%d.%d.%d:0", 1+rand.N(254), rand.N(256), 1+rand.N(254))
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
