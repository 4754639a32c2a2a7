package lifecycle_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/test/bufconn"

	"urr.guru/pkg/lifecycle"
)

func TestShutdownHasADeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		closed := make(chan struct{})
		a := newApp(lifecycle.Config{ShutdownTimeout: 50 * time.Millisecond})
		a.Go("stubborn", func(context.Context) error { <-release; return nil })
		a.OnClose("pool", func(context.Context) error { close(closed); return nil })
		stop, wait := run(t, a)
		stop()
		require.ErrorContains(t, wait(), "stop stubborn: did not end in its part of 50ms")
		<-closed
	})
}

// A pool waits for the connection of a hanging worker without regard to its context: the process
// must end anyway.
func TestHangingCloserIsAbandoned(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		var j callLog
		a := newApp(lifecycle.Config{ShutdownTimeout: 50 * time.Millisecond})
		a.OnClose("telemetry", j.closer("telemetry"))
		a.OnClose("panics", func(context.Context) error { panic("twice closed") })
		a.OnClose("pool", func(context.Context) error { <-release; return nil })
		stop, wait := run(t, a)
		stop()
		err := wait()
		require.ErrorContains(t, err, "close pool: did not end in its part of 50ms")
		require.ErrorContains(t, err, "close panics: panic: twice closed")
		require.Equal(t, []string{"telemetry"}, j.did, "those after it have their turn")
	})
}

// A hanging request uses only the servers' share of the time, not that of consumers and relays.
func TestHangingServerLeavesTimeForWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		defer close(release)
		entered := make(chan struct{})
		a := newApp(lifecycle.Config{ShutdownTimeout: time.Second})
		var worked, hadTime bool
		a.Go("relay", func(ctx context.Context) error {
			<-ctx.Done()
			select {
			case <-time.After(50 * time.Millisecond): // the last pass
				worked = true
			case <-release:
			}
			return nil
		})
		a.OnClose("pool", func(ctx context.Context) error { hadTime = ctx.Err() == nil; return nil })
		l := bufconn.Listen(1 << 10)
		a.ServeHTTP("http", l, &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			close(entered)
			<-release
		})})
		stop, wait := run(t, a)
		conn, err := l.DialContext(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		require.NoError(t, err)
		<-entered
		stop()
		err = wait()
		require.ErrorContains(t, err, "stop http: context deadline exceeded")
		require.NotContains(t, err.Error(), "relay")
		require.True(t, worked)
		require.True(t, hadTime)
	})
}

func TestFailureWhileDrainingIsReturned(t *testing.T) {
	t.Parallel()
	drains := make(chan struct{})
	a := newApp(lifecycle.Config{Drain: time.Hour})
	a.Go("consumer", func(ctx context.Context) error {
		select {
		case <-drains:
			return errors.New("lost its partitions")
		case <-ctx.Done():
			return nil
		}
	})
	stop, wait := run(t, a)
	stop()
	close(drains)
	require.ErrorContains(t, wait(), "consumer: lost its partitions", "neither a clean end nor an hour's wait")
}
