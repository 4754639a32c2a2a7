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
	"urr.guru/pkg/testkit"
)

// stallableProxy is a proxy to the database that can stop forwarding: connections stay open, and
// nothing arrives.
type stallableProxy struct {
	net.Listener

	to            string
	silent, ended chan struct{}
	ends          sync.WaitGroup
}

// throughProxy starts a proxy to the database and returns the URL that leads through it.
func throughProxy(t *testing.T, to config.Secret) (*stallableProxy, config.Secret) {
	t.Helper()
	u, err := url.Parse(to.Reveal())
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	w := &stallableProxy{Listener: l, to: u.Host, silent: make(chan struct{}), ended: make(chan struct{})}
	w.ends.Go(w.accept)
	u.Host = l.Addr().String()
	parameters := u.Query()
	parameters.Del("connect_timeout") // the service's own timeout applies
	u.RawQuery = parameters.Encode()
	return w, config.Secret(u.String())
}

func (w *stallableProxy) end() {
	close(w.ended)
	_ = w.Close()
	w.ends.Wait()
}

func (w *stallableProxy) accept() {
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

// writer discards data while the proxy is stalled.
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

// Workers have no deadline: a hanging connection must not block them forever, whether in a ping, a
// statement or at the start of a transaction.
func TestHangingConnectionIsAbandoned(t *testing.T) {
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
				proxy, proxyURL := throughProxy(t, postgrestest.URL(t))
				pool, err := postgres.Open(t.Context(), postgres.Config{URL: proxyURL}, "test", postgres.CallsWithin(300*time.Millisecond, pinged))
				require.NoError(t, err)
				testkit.UntilNoError(t, func() error { return pool.Ping(t.Context()) }, "a connection")
				close(proxy.silent)
				ended := make(chan error, 1)
				go func() { ended <- call(context.Background(), pool) }()
				require.Error(t, testkit.Receive(t, ended, "the end of the call"))
				proxy.end()
				pool.Close()
			})
		}
	}
}
