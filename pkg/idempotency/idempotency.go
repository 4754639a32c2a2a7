// Package idempotency is the Idempotency-Key of a request, carried through the domain to the
// transaction of the effect. Package answers stores the answers; this package knows no store, so
// that the domain may import it.
package idempotency

import (
	"crypto/sha256"
	"encoding/binary"

	"urr.guru/pkg/errs"
)

// maxKey is the longest key, in bytes.
const maxKey = 255

// What can be wrong with a key.
var (
	ErrRequired   = errs.ErrIdempotencyKeyRequired
	ErrInvalid    = errs.ErrIdempotencyKeyInvalid
	ErrReused     = errs.ErrIdempotencyKeyReused
	ErrInProgress = errs.ErrIdempotencyInProgress
)

// Key identifies a request: keys of different users and routes are independent.
type Key struct {
	UserID, Route, Key string
	// Fingerprint is a hash of the request; another one under the same key is refused (ErrReused).
	Fingerprint [sha256.Size]byte
}

// New makes the key of a request with the given parts, nil when key is empty. A key is 1–255
// printable ASCII characters (ErrInvalid).
func New(userID, route, key string, parts ...string) (*Key, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // a missing key is allowed
	}
	return Require(userID, route, key, parts...)
}

// Require is New for requests that must have a key (ErrRequired).
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

// Lock is the advisory lock that serializes requests with this key.
func (k *Key) Lock() int64 {
	d := digest("idempotency", k.UserID, k.Route, k.Key)
	return int64(binary.BigEndian.Uint64(d[:8])) //nolint:gosec // any 64 bits will do
}

// digest hashes parts with their lengths, so that parts cannot run into each other.
func digest(parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, int64(len(p))) // a hash never fails
		h.Write([]byte(p))
	}
	h.Sum(sum[:0])
	return sum
}
