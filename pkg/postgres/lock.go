package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/pressly/goose/v3/lock"
)

const (
	migrationLockEvery = 100 * time.Millisecond
	migrationLockWait  = 5 * time.Minute
	unlockTimeout      = 5 * time.Second
)

// lockAll excludes other calls of Migrate. lockOne is goose's own lock, for applying the files of
// one set.
const (
	lockOne migrationLock = migrationLock(lock.DefaultLockID)
	lockAll migrationLock = lockOne + 1
)

// migrationLock is the key of an advisory lock of a session. It is taken by polling, more often
// than goose does. A session that waited without polling would hold a snapshot, and CREATE INDEX
// CONCURRENTLY in the session with the lock would wait for the end of that snapshot.
type migrationLock int64

var _ lock.SessionLocker = lockOne

func (l migrationLock) SessionLock(ctx context.Context, conn *sql.Conn) error {
	ctx, cancel := context.WithTimeout(ctx, migrationLockWait)
	defer cancel()
	for {
		var got bool
		if err := conn.QueryRowContext(ctx, `SELECT pg_try_advisory_lock($1)`, int64(l)).Scan(&got); err != nil {
			return fmt.Errorf("migration lock: %w", err)
		}
		if got {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("migration lock: %w", ctx.Err())
		case <-time.After(migrationLockEvery):
		}
	}
}

func (l migrationLock) SessionUnlock(ctx context.Context, conn *sql.Conn) error {
	var had bool
	if err := conn.QueryRowContext(ctx, `SELECT pg_advisory_unlock($1)`, int64(l)).Scan(&had); err != nil {
		return fmt.Errorf("migration unlock: %w", err)
	}
	if !had {
		return errors.New("migration unlock: the session did not have the lock")
	}
	return nil
}

// release unlocks a connection that is about to be closed, even if ctx has ended.
func (l migrationLock) release(ctx context.Context, conn *sql.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unlockTimeout)
	defer cancel()
	_ = l.SessionUnlock(ctx, conn) // if this fails, the end of the session releases the lock
}
