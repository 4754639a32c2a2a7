package harness

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestDNSReturnsEveryReplica(t *testing.T) {
	t.Parallel()
	n, err := startNameServer()
	require.NoError(t, err)
	t.Cleanup(n.close)
	n.setAddresses("ticket", []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(127, 0, 0, 2)})
	resolver := &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", n.conn.LocalAddr().String())
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	addrs, err := resolver.LookupHost(ctx, "ticket.urr.test.")
	require.NoError(t, err)
	require.ElementsMatch(t, []string{"127.0.0.1", "127.0.0.2"}, addrs)

	_, err = resolver.LookupHost(ctx, "unknown.urr.test.")
	var unknown *net.DNSError
	require.ErrorAs(t, err, &unknown)
	require.True(t, unknown.IsNotFound)
}
