package process

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
)

// This test is not parallel: until its exec, a process that another test starts would have a copy
// of the socket.
func TestCheckPortNamesTheOwner(t *testing.T) {
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port

	err = CheckPortOnce(port)
	var taken *PortTaken
	require.ErrorAs(t, err, &taken)
	require.Equal(t, port, taken.Port)
	require.Contains(t, taken.Owner, fmt.Sprintf("(process %d)", os.Getpid()))

	// The port of an outgoing connection is in use too, although nothing listens on it.
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp4", l.Addr().String())
	require.NoError(t, err)
	require.ErrorAs(t, CheckPortOnce(conn.LocalAddr().(*net.TCPAddr).Port), &taken)
	require.Equal(t, "an outgoing connection", taken.Owner)

	require.NoError(t, l.Close())
	require.NoError(t, conn.Close())
	require.NoError(t, CheckPort(port))
}

// A process that starts during a port check holds the check's socket until its exec. The next check
// must still find the port free.
func TestPortsStayFreeWhileProcessesStart(t *testing.T) {
	stop := make(chan struct{})
	var starts sync.WaitGroup
	failed := make([]error, 4)
	for i := range failed {
		starts.Go(func() {
			for failed[i] == nil {
				select {
				case <-stop:
					return
				default:
					failed[i] = exec.CommandContext(t.Context(), "/bin/true").Run()
				}
			}
		})
	}
	defer func() {
		close(stop)
		starts.Wait()
		require.NoError(t, errors.Join(failed...))
	}()
	others := 0 // ports that an unrelated process, such as a test of another package, has taken since
	for range 1000 {
		port := backendtest.FreePort(t)
		for range 2 {
			if err := CheckPort(port); err != nil {
				others++
				require.LessOrEqual(t, others, 5, "%v", err)
			}
		}
	}
}
