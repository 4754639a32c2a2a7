package postgres

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
)

// User is a user of one event.
type User struct{ EventID, UserID string }

// LockKey returns the key of the advisory lock that must be held to count or change the user's places.
func (u User) LockKey() int64 {
	sum := sha256.Sum256([]byte("user\x00" + u.EventID + "\x00" + u.UserID))
	return int64(binary.BigEndian.Uint64(sum[:8])) //nolint:gosec // any 64 bits will do
}

// LockKeys returns the lock keys of users in the order in which all transactions take them.
func LockKeys(users []User) []int64 {
	keys := make([]int64, len(users))
	for i, u := range users {
		keys[i] = u.LockKey()
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}
