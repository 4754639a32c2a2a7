package asyncevent

import "urr.guru/pkg/dynamo"

// Lock makes a user's request to an event unique: it names the request that counts.
type Lock struct {
	EventID, UserID string
	RequestID       string
	// KeyHash is of the Idempotency-Key of the request that the lock was written for; empty without one.
	KeyHash   string
	CreatedAt int64
	EndsAt    int64
}

func lockPK(event, user string) string { return "IDEMP#" + event + "#" + user }

// LockKey is the key of a lock.
func LockKey(event, user string) dynamo.Item { return Key(lockPK(event, user), "LOCK") }

// Item encodes the lock.
func (l *Lock) Item() dynamo.Item {
	b := newItem(lockPK(l.EventID, l.UserID), "LOCK", "IDEMPOTENCY")
	b.str("requestId", l.RequestID)
	b.str("keyHash", l.KeyHash)
	b.num("createdAt", l.CreatedAt)
	b.num(TTL, expiry(l.EndsAt, lockDays))
	return dynamo.Item(b)
}

// DecodeLock reads what a lock says of its request.
func DecodeLock(it dynamo.Item) (Lock, error) {
	d := dynamo.Reader{Item: it}
	return Lock{RequestID: d.String("requestId"), KeyHash: d.String("keyHash"), CreatedAt: d.Number("createdAt")}, d.Err()
}
