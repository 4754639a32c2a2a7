package postgrestest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/backendtest"
)

// admin is the connection to the server that all tests of this process share: the server starts a
// process for each connection, which takes as long as the copy of a database.
//
//nolint:gochecknoglobals // shared by the tests of a process
var admin struct {
	mu   sync.Mutex
	conn *pgx.Conn
}

// withAdminConn runs fn with the shared connection, and opens it if there is none or it broke.
// Afterwards the connection has no advisory locks.
func withAdminConn(ctx context.Context, t testing.TB, fn func(*pgx.Conn) error) (err error) {
	t.Helper()
	admin.mu.Lock()
	defer admin.mu.Unlock()
	if admin.conn == nil || admin.conn.IsClosed() {
		server := backendtest.Postgres(t, "postgres") //nolint:contextcheck // the check for the server also serves cleanups
		if admin.conn, err = pgx.Connect(ctx, server); err != nil {
			return err
		}
	}
	defer func() {
		if _, unlockErr := admin.conn.Exec(ctx, `SELECT pg_advisory_unlock_all()`); unlockErr != nil {
			_ = admin.conn.Close(ctx) // the server then releases the locks
		}
	}()
	return fn(admin.conn)
}
