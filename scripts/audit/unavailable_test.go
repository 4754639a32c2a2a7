package audit

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"

	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

func TestUnavailableErrors(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err         error
		unavailable bool
	}{
		"nobody listens":       {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"connection reset":     {&net.OpError{Op: "read", Err: syscall.ECONNRESET}, true},
		"connection lost":      {io.ErrUnexpectedEOF, true},
		"no answer":            {context.DeadlineExceeded, true},
		"PostgreSQL starts":    {&pgconn.PgError{Code: "57P03"}, true},
		"PostgreSQL stops":     {&pgconn.PgError{Code: "57P01"}, true},
		"Kafka has no leader":  {kerr.NotLeaderForPartition, true},
		"no such table":        {&pgconn.PgError{Code: "42P01"}, false},
		"interrupted":          {context.Canceled, false},
		"something else":       {errors.New("malformed"), false},
		"Kafka does not allow": {kerr.TopicAuthorizationFailed, false},
		"nothing":              {nil, false},
	} {
		wrapped := c.err
		if wrapped != nil {
			wrapped = fmt.Errorf("sales: %w", wrapped)
		}
		err := unavailable("the store", wrapped)
		_, isUnavailable := errors.AsType[*UnavailableError](err)
		require.Equal(t, c.unavailable, isUnavailable, name)
		require.ErrorIs(t, err, c.err, name)
	}
}

// For each client, the audit recognizes the error of a refused connection.
func TestUnavailableErrorNamesTheStore(t *testing.T) {
	t.Parallel()
	const closedAddr = "127.0.0.1:1"
	s := connect(platform.Wiring{RedisAddrs: []string{closedAddr}, KafkaBrokers: []string{closedAddr}, SandboxURL: "http://" + closedAddr})
	require.NoError(t, s.openPools(t.Context(), platform.Wiring{
		DatabaseURL: func(platform.Service) string { return "postgres://urr@" + closedAddr + "/x?sslmode=disable" },
	}))
	t.Cleanup(s.Close)
	for store, read := range map[string]func(context.Context) error{
		"Redis":                func(ctx context.Context) error { _, err := s.ReadNumbers(ctx, "e"); return err },
		"PostgreSQL (ticket)":  func(ctx context.Context) error { _, err := s.Sales(ctx, "e"); return err },
		"PostgreSQL (stats)":   func(ctx context.Context) error { _, err := s.readStatsFigures(ctx, "e"); return err },
		"Kafka":                func(ctx context.Context) error { _, err := s.DeadLetters(ctx); return err },
		"the payment provider": func(ctx context.Context) error { _, err := s.Faults(ctx, "e"); return err },
	} {
		t.Run(store, func(t *testing.T) {
			t.Parallel()
			err := read(t.Context())
			missing, isUnavailable := errors.AsType[*UnavailableError](err)
			require.True(t, isUnavailable, "%v", err)
			require.Equal(t, store, missing.Store)
		})
	}
	t.Run("topics", func(t *testing.T) {
		t.Parallel()
		_, err := topics.Read(t.Context(), []string{closedAddr}, "x")
		require.True(t, isUnavailable(err), "%v", err)
	})
}

// outageLog has the messages about outages that Read prints.
type outageLog []string

func (l *outageLog) say(format string, args ...any) { *l = append(*l, fmt.Sprintf(format, args...)) }

func TestReadWaitsForAnUnavailableStoreAndReportsItOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var messages outageLog
		start := time.Now()
		waited, err := OutageWait{Limit: time.Minute, Say: messages.say}.Read(t.Context(), func(context.Context) error {
			switch lasted := time.Since(start); {
			case lasted < 10*time.Second:
				return fmt.Errorf("sales: %w", &UnavailableError{"Redis", syscall.ECONNREFUSED})
			case lasted < 65*time.Second: // the limit begins anew for the second store
				return &UnavailableError{"Kafka", io.EOF}
			}
			return nil
		})
		require.NoError(t, err)
		require.True(t, waited)
		require.Empty(t, cmp.Diff(outageLog{
			"Redis is away: connection refused; waiting for it", "Redis is back after 10.0 s",
			"Kafka is away: EOF; waiting for it", "Kafka is back after 55.0 s",
		}, messages))

		messages = nil
		waited, err = OutageWait{Limit: time.Minute, Say: messages.say}.Read(t.Context(), func(context.Context) error { return io.ErrNoProgress })
		require.ErrorIs(t, err, io.ErrNoProgress)
		require.False(t, waited)
		require.Empty(t, messages)
	})
}

func TestReadFailsAtTheLimitAndNamesTheStore(t *testing.T) {
	t.Parallel()
	for name, read := range map[string]func(context.Context) error{
		"refuses": func(context.Context) error { return &UnavailableError{"Redis", syscall.ECONNREFUSED} },
		"hangs": func(ctx context.Context) error {
			<-ctx.Done()
			return unavailable("Redis", ctx.Err())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var messages outageLog
				start := time.Now()
				_, err := OutageWait{Limit: time.Minute, Say: messages.say}.Read(t.Context(), read)
				require.ErrorContains(t, err, "Redis did not come back within 1m0s")
				require.Less(t, time.Since(start), 2*time.Minute) // in fake time
				require.Len(t, messages, 1)
			})
		})
	}
}

func TestReadStopsWhenInterrupted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		var messages outageLog
		_, err := OutageWait{Limit: time.Minute, Say: messages.say}.Read(ctx, func(context.Context) error {
			return &UnavailableError{"Redis", syscall.ECONNREFUSED}
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}
