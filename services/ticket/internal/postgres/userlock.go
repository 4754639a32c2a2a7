package postgres

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// User is one user at one event.
type User struct{ EventID, UserID string }

// LockKey is the key of the advisory lock under which a user's places at an event are counted and
// change.
func (u User) LockKey() int64 {
	sum := sha256.Sum256([]byte("user\x00" + u.EventID + "\x00" + u.UserID))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// LockUsers takes the locks of users until the end of the transaction, in the order that all
// transactions keep.
func (t *Tx) LockUsers(ctx context.Context, users []User) error {
	if len(users) == 0 {
		return nil
	}
	keys := make([]int64, len(users))
	for i, u := range users {
		keys[i] = u.LockKey()
	}
	slices.Sort(keys)
	return t.Queries.LockUsers(ctx, slices.Compact(keys))
}
