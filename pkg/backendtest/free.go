package backendtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
)

// FreeAddr returns a free host:port for a server that a test starts. It is on a loopback address
// that nothing else uses, so that the port is still free when the server starts or restarts.
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
