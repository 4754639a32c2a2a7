package process

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Not beside the tests that start processes: a child holds its parent's sockets until its exec.
func TestCheckPortNamesTheOwner(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port

	err = CheckPort(port)
	var taken *PortTaken
	require.ErrorAs(t, err, &taken)
	require.Equal(t, port, taken.Port)
	require.Contains(t, taken.Owner, fmt.Sprintf("(process %d)", os.Getpid()))

	// A port that an outgoing connection has is taken too, though nobody listens on it.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", l.Addr().String())
	require.NoError(t, err)
	require.ErrorAs(t, CheckPort(conn.LocalAddr().(*net.TCPAddr).Port), &taken)
	require.Equal(t, "an outgoing connection", taken.Owner)

	require.NoError(t, l.Close())
	require.NoError(t, conn.Close())
	require.NoError(t, CheckPort(port))
}

// A process that starts at the same moment has the socket with which a port is tried, until its exec: the port is free all the same.
func TestPortsAreFreeWhileProcessesStart(t *testing.T) {
	over := make(chan struct{})
	var starts sync.WaitGroup
	for range 4 {
		starts.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					assert.NoError(t, exec.CommandContext(t.Context(), "/bin/true").Run())
				}
			}
		})
	}
	for range 1000 {
		port, err := FreePort()
		assert.NoError(t, err)
		assert.NoError(t, CheckPort(port))
		assert.NoError(t, CheckPort(port), "again")
	}
	close(over)
	starts.Wait()
}
