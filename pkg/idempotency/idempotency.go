// Package idempotency defines the key of a request (header Idempotency-Key), which is passed
// through the domain to the transaction of the request's effect. Package answers stores the
// answers. This package depends on no store, so that the domain may import it.
package idempotency

import (
	"crypto/sha256"
	"encoding/binary"

	"urr.guru/pkg/errs"
)

// maxKey is the longest key, in bytes.
const maxKey = 255

// Errors of a request whose Idempotency-Key is missing, malformed, in use or already used.
var (
	ErrRequired   = errs.ErrIdempotencyKeyRequired
	ErrInvalid    = errs.ErrIdempotencyKeyInvalid
	ErrReused     = errs.ErrIdempotencyKeyReused
	ErrInProgress = errs.ErrIdempotencyInProgress
)

// Key identifies a request. The same key text of another user or route is another key.
type Key struct {
	UserID, Route, Key string
	// Fingerprint is a hash of the request. A different request with the same key gets ErrReused.
	Fingerprint [sha256.Size]byte
}

// New makes the key of a request; parts are the content of the request. Without a key text it
// returns nil. A key is 1–255 printable ASCII characters (else ErrInvalid).
func New(userID, route, key string, parts ...string) (*Key, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // a missing key is allowed
	}
	return Require(userID, route, key, parts...)
}

// Require is like New, but fails with ErrRequired without a key text.
func Require(userID, route, key string, parts ...string) (*Key, error) {
	switch {
	case key == "":
		return nil, ErrRequired
	case len(key) > maxKey:
		return nil, ErrInvalid
	}
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return nil, ErrInvalid
		}
	}
	return &Key{UserID: userID, Route: route, Key: key, Fingerprint: digest(parts...)}, nil
}

// AdvisoryLock returns the number of PostgreSQL's advisory lock that serializes the key's requests.
func (k *Key) AdvisoryLock() int64 {
	d := digest("idempotency", k.UserID, k.Route, k.Key)
	return int64(binary.BigEndian.Uint64(d[:8])) //nolint:gosec // any 64 bits will do
}

// digest hashes each part after its length, so that ("ab", "c") and ("a", "bc") differ.
func digest(parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, int64(len(p))) // a hash never fails
		h.Write([]byte(p))
	}
	h.Sum(sum[:0])
	return sum
}
