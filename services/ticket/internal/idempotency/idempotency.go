// Package idempotency is what a request with an Idempotency-Key carries through the domain to the transaction that has its effect: a
// repetition is answered with what the first one was answered, for 24 hours. Only requests that had an effect are remembered; one that
// was refused changed nothing and may be tried again.
package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"urr.guru/pkg/errs"
)

// Life is how long an answer is remembered.
const Life = 24 * time.Hour

// maxKey is the longest key, in bytes.
const maxKey = 255

// What can be wrong with a key.
var (
	ErrInvalid    = errs.ErrIdempotencyKeyInvalid
	ErrReused     = errs.ErrIdempotencyKeyReused
	ErrInProgress = errs.ErrIdempotencyInProgress
)

// Key identifies a request: keys of different users and routes have nothing to do with each other.
type Key struct {
	UserID, Route, Key string
	// Fingerprint is a hash of what is asked; another one under the same key is refused (ErrReused).
	Fingerprint [sha256.Size]byte
}

// New makes the key of a request that asks for the given parts, nil when key is empty. A key is 1–255 printable ASCII characters
// (ErrInvalid).
func New(userID, route, key string, asked ...string) (*Key, error) {
	if key == "" {
		return nil, nil //nolint:nilnil // no key is no mistake
	}
	if len(key) > maxKey {
		return nil, ErrInvalid
	}
	for _, c := range []byte(key) {
		if c < 0x20 || c > 0x7e {
			return nil, ErrInvalid
		}
	}
	return &Key{UserID: userID, Route: route, Key: key, Fingerprint: digest(asked...)}, nil
}

// Lock is the number under which requests with this key exclude each other.
func (k *Key) Lock() int64 {
	d := digest("idempotency", k.UserID, k.Route, k.Key)
	return int64(binary.BigEndian.Uint64(d[:8])) //nolint:gosec // any 64 bits will do
}

// digest hashes parts with their lengths, so that moving a character from one to the next gives another hash.
func digest(parts ...string) (sum [sha256.Size]byte) {
	h := sha256.New()
	for _, p := range parts {
		_ = binary.Write(h, binary.BigEndian, int64(len(p))) // a hash never fails
		h.Write([]byte(p))
	}
	h.Sum(sum[:0])
	return sum
}
