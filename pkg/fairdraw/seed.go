package fairdraw

import (
	"crypto/rand"
	"crypto/sha256"

	"urr.guru/pkg/token"
)

// LabelSeed is derived from DRAW_SECRET (token.KeySet.Derive).
const LabelSeed = "urr/draw-seed"

// Nonce makes the seed of each opening unique. It is stored with the event's configuration.
type Nonce [32]byte

// NewNonce makes a random nonce.
func NewNonce() Nonce {
	var n Nonce
	_, _ = rand.Read(n[:]) // crypto/rand.Read never fails
	return n
}

// Seed is the operator's secret part of the key: HMAC-SHA256 of the event id and the nonce by the
// key kid of DRAW_SECRET. It is computed when needed and never stored. ok is false when the set has
// no key kid.
func Seed(keys token.MACSet, kid, eventID string, nonce Nonce) (seed Hash, ok bool) {
	return keys.Sum(kid, []byte(eventID), nonce[:])
}

// SeedHash is what the commitment publishes of the seed.
func SeedHash(seed Hash) Hash { return sha256.Sum256(seed[:]) }

// Key is the key of the ranking: SHA-256(seed ‖ commitment ‖ root ‖ value). value is the randomness
// of the beacon's round, 32 bytes, or empty without a beacon.
func Key(seed, commitment, root Hash, value []byte) Hash {
	b := make([]byte, 0, 4*len(seed))
	b = append(append(append(b, seed[:]...), commitment[:]...), root[:]...)
	return sha256.Sum256(append(b, value...))
}
