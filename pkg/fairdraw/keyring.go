package fairdraw

import (
	"sync/atomic"

	"urr.guru/pkg/token"
)

// Seed is the seed that a commitment names by its hash; ok is false when its key is not in the set, or
// is another one than when the draw was opened.
func (k Keys) Seed(c *Commitment, nonce Nonce) (seed Hash, ok bool) {
	seed, ok = Seed(k.Seeds, c.SeedKID, c.EventID, nonce)
	return seed, ok && SeedHash(seed) == c.SeedHash
}

// ParseNonce reads 64 lower-case hex digits.
func ParseNonce(s string) (Nonce, error) {
	h, err := ParseHash(s)
	return Nonce(h), err
}

// Keyring holds the keys in force while secrets change; it is safe for concurrent use.
type Keyring struct{ keys atomic.Pointer[Keys] }

// NewKeyring makes a keyring of the configured keys.
func NewKeyring(c KeyConfig) (*Keyring, error) {
	r := &Keyring{}
	return r, r.Rekey(c)
}

// Rekey replaces the keys, all or none.
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

// ReceiptKeyring holds the keys of receipts in force while secrets change; it is safe for concurrent
// use.
type ReceiptKeyring struct {
	keys atomic.Pointer[token.SigningKeys]
}

// NewReceiptKeyring makes a keyring of the configured keys.
func NewReceiptKeyring(c ReceiptConfig) (*ReceiptKeyring, error) {
	r := &ReceiptKeyring{}
	return r, r.Rekey(c)
}

// Rekey replaces the keys, all or none.
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
