package payment

import (
	"crypto/sha256"
	"encoding/binary"
)

// maxKey is the longest Idempotency-Key, in bytes.
const maxKey = 255

// Routes that take an Idempotency-Key.
const (
	routePrepare = "prepare"
	routeConfirm = "confirm"
)

// Key is a request's Idempotency-Key: keys of different users and routes have nothing to do with each other. It is kept for 24 hours with
// the final answer, in the transaction that has the effect.
type Key struct {
	UserID, Route, Key string
	// Fingerprint is a hash of what is asked.
	Fingerprint [sha256.Size]byte
}

// newKey checks a key: 1-255 printable ASCII characters.
func newKey(userID, route, key string, asked ...string) (Key, error) {
	if key == "" {
		return Key{}, ErrKeyRequired
	}
	if len(key) > maxKey {
		return Key{}, ErrKeyInvalid
	}
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return Key{}, ErrKeyInvalid
		}
	}
	k := Key{UserID: userID, Route: route, Key: key}
	h := sha256.New()
	for _, part := range asked { // with its length, so that no two requests hash the same text
		_ = binary.Write(h, binary.BigEndian, int64(len(part)))
		h.Write([]byte(part))
	}
	h.Sum(k.Fingerprint[:0])
	return k, nil
}
