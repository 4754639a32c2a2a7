package lifecycle_test

import (
	"bufio"
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

// Closing a pool waits for the connection of a hanging worker and ignores the context. The process
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

// With the times of the payment and gateway charts, a confirmation of 20 s that is accepted at the end
// of the drain is answered.
func TestSlowRequestAtTheEndOfTheDrainIsAnswered(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const drain = 10 * time.Second
		a := newApp(lifecycle.Config{Drain: drain, ShutdownTimeout: 45 * time.Second})
		l := bufconn.Listen(1 << 10)
		a.ServeHTTP("http", l, &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-time.After(20 * time.Second):
				w.WriteHeader(http.StatusNoContent)
			case <-r.Context().Done():
			}
		})})
		stop, wait := run(t, a)
		stop()
		<-time.After(drain - time.Millisecond)
		conn, err := l.DialContext(t.Context())
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Write([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
		require.NoError(t, err)
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		require.NoError(t, err)
		require.NoError(t, resp.Body.Close())
		require.Equal(t, http.StatusNoContent, resp.StatusCode)
		require.NoError(t, wait())
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
