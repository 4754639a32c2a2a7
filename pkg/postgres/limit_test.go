package postgres_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	"urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/pkg/waittest"
)

// line is a way to the database that can fall silent: connections stay open, and nothing arrives.
type line struct {
	net.Listener

	to            string
	silent, ended chan struct{}
	ends          sync.WaitGroup
}

// overALine gives a URL of the database that leads over a line.
func overALine(t *testing.T, to config.Secret) (*line, config.Secret) {
	t.Helper()
	u, err := url.Parse(to.Reveal())
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &line{Listener: l, to: u.Host, silent: make(chan struct{}), ended: make(chan struct{})}
	w.ends.Go(w.accept)
	u.Host = l.Addr().String()
	return w, config.Secret(u.String())
}

func (w *line) end() {
	close(w.ended)
	_ = w.Close()
	w.ends.Wait()
}

func (w *line) accept() {
	for {
		near, err := w.Accept()
		if err != nil {
			return
		}
		far, err := net.Dial("tcp", w.to)
		if err != nil {
			_ = near.Close()
			continue
		}
		w.ends.Go(func() { _, _ = io.Copy(near, far) })
		w.ends.Go(func() { _, _ = io.Copy(writer{far, w.silent}, near) })
		w.ends.Go(func() { <-w.ended; _ = near.Close(); _ = far.Close() })
	}
}

// writer drops what comes while the line is silent.
type writer struct {
	net.Conn

	silent <-chan struct{}
}

func (w writer) Write(b []byte) (int, error) {
	select {
	case <-w.silent:
		return len(b), nil
	default:
		return w.Conn.Write(b)
	}
}

// A worker has no deadline of its own: a connection that hangs must not stop it for ever, neither
// where the connection is tried first nor in a statement or the beginning of a transaction.
func TestAConnectionThatHangsStopsNobody(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(context.Context, *pgxpool.Pool) error{
		"statement": func(ctx context.Context, pool *pgxpool.Pool) error {
			_, err := pool.Exec(ctx, `SELECT 1`)
			return err
		},
		"transaction": func(ctx context.Context, pool *pgxpool.Pool) error {
			return postgres.InTx(ctx, pool, func(context.Context, pgx.Tx) error { return nil })
		},
	} {
		for first, pinged := range map[string]bool{"": false, ", tried first": true} {
			t.Run(name+first, func(t *testing.T) {
				t.Parallel()
				way, over := overALine(t, postgrestest.URL(t))
				pool, err := postgres.Open(t.Context(), postgres.Config{URL: over}, "test", postgres.CallsWithin(300*time.Millisecond, pinged))
				require.NoError(t, err)
				waittest.NoError(t, func() error { return pool.Ping(t.Context()) }, "a connection")
				close(way.silent)
				ended := make(chan error, 1)
				go func() { ended <- call(context.Background(), pool) }()
				require.Error(t, waittest.Receive(t, ended, "the end of the call"))
				way.end()
				pool.Close()
			})
		}
	}
}
