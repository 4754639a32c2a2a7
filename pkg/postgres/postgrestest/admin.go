package postgrestest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"urr.guru/pkg/backendtest"
)

// admin is this process's connection to the server. Its tests take turns: the server starts a
// process for each connection, which takes as long as the copy of a database.
//
//nolint:gochecknoglobals // shared by the tests of a process
var admin struct {
	turn sync.Mutex
	conn *pgx.Conn
}

// asAdmin runs fn on admin's connection, which is opened at first and after it broke. Afterwards it
// has no advisory locks.
func asAdmin(ctx context.Context, t testing.TB, fn func(*pgx.Conn) error) (err error) {
	t.Helper()
	admin.turn.Lock()
	defer admin.turn.Unlock()
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
