package postgres_test

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/url"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/config"
	pkgpostgres "urr.guru/pkg/postgres"
	"urr.guru/pkg/postgres/postgrestest"
	"urr.guru/services/stats/internal/postgres"
)

// neverClosing returns the URL of a proxy to a database that hides the end of every connection from
// the server until the test ends, as a busy server notices it late.
func neverClosing(t *testing.T, to string) config.Secret {
	t.Helper()
	u, err := url.Parse(to)
	require.NoError(t, err)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := u.Host
	go func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			t.Cleanup(func() { _ = errors.Join(near.Close(), far.Close()) })
			go func() { _, _ = io.Copy(near, far) }()
			go func() { _, _ = io.Copy(withoutEnd{far}, near) }()
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	u.Host = l.Addr().String()
	return config.Secret(u.String())
}

// withoutEnd forwards all messages of PostgreSQL's protocol but Terminate.
type withoutEnd struct{ net.Conn }

func (w withoutEnd) Write(b []byte) (int, error) {
	if bytes.Equal(b, []byte{'X', 0, 0, 0, 4}) {
		return len(b), nil
	}
	return w.Conn.Write(b)
}

// A rebuild that has ended lets the next one begin, even if the server has not noticed yet that the
// connection is closed. One that was refused does not end the one that runs.
func TestClosedShadowLetsTheNextRebuildBegin(t *testing.T) {
	t.Parallel()
	database := postgrestest.URL(t, postgres.Migrations...)
	cfg := pkgpostgres.Config{URL: neverClosing(t, database.Reveal()), MaxConns: 4}
	for range 2 {
		shadow, err := postgres.NewShadow(t.Context(), cfg)
		require.NoError(t, err)
		for range 2 {
			_, err = postgres.NewShadow(t.Context(), cfg)
			require.ErrorIs(t, err, postgres.ErrRebuilding)
		}
		shadow.Close(t.Context())
	}
}
