package fairdraw

import (
	"sync/atomic"

	"urr.guru/pkg/token"
)

// Seed computes the seed whose hash is in the commitment. ok is false when the set lacks the key,
// or has another key with the same id.
func (k Keys) Seed(c *Commitment, nonce Nonce) (seed Hash, ok bool) {
	seed, ok = Seed(k.Seeds, c.SeedKID, c.EventID, nonce)
	return seed, ok && SeedHash(seed) == c.SeedHash
}

// ParseNonce reads a nonce of 64 lower-case hex digits.
func ParseNonce(s string) (Nonce, error) {
	h, err := ParseHash(s)
	return Nonce(h), err
}

// Keyring holds the keys of draws that are in use, and replaces them when the secrets change. It is
// safe for concurrent use.
type Keyring struct{ keys atomic.Pointer[Keys] }

// NewKeyring makes a Keyring with the configured keys.
func NewKeyring(c KeyConfig) (*Keyring, error) {
	r := &Keyring{}
	return r, r.Rekey(c)
}

// Rekey replaces all keys, or none if the configuration is invalid.
func (r *Keyring) Rekey(c KeyConfig) error {
	k, err := c.Keys()
	if err == nil {
		r.keys.Store(&k)
	}
	return err
}

func (r *Keyring) Keys() Keys {
	if k := r.keys.Load(); k != nil {
		return *k
	}
	return Keys{}
}

// ReceiptKeyring holds the keys that sign receipts, and replaces them when the secrets change. It
// is safe for concurrent use.
type ReceiptKeyring struct {
	keys atomic.Pointer[token.SigningKeys]
}

// NewReceiptKeyring makes a ReceiptKeyring with the configured keys.
func NewReceiptKeyring(c ReceiptConfig) (*ReceiptKeyring, error) {
	r := &ReceiptKeyring{}
	return r, r.Rekey(c)
}

// Rekey replaces all keys, or none if the configuration is invalid.
func (r *ReceiptKeyring) Rekey(c ReceiptConfig) error {
	k, err := c.Keys()
	if err == nil {
		r.keys.Store(&k)
	}
	return err
}

func (r *ReceiptKeyring) Keys() token.SigningKeys {
	if k := r.keys.Load(); k != nil {
		return *k
	}
	return token.SigningKeys{}
}
