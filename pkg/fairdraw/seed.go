package fairdraw

import (
	"crypto/rand"
	"crypto/sha256"

	"urr.guru/pkg/token"
)

// LabelSeed is the label under which the keys of seeds are derived from DRAW_SECRET
// (token.KeySet.Derive).
const LabelSeed = "urr/draw-seed"

// Nonce is a random value that makes the seed of each draw unique. It is stored with the event.
type Nonce [32]byte

// NewNonce makes a random nonce.
func NewNonce() Nonce {
	var n Nonce
	_, _ = rand.Read(n[:]) // crypto/rand.Read never fails
	return n
}

// Seed computes the operator's secret part of the ranking key: HMAC-SHA256 of the event id and the
// nonce with the key kid of DRAW_SECRET. It is never stored. ok is false without that key.
func Seed(keys token.MACSet, kid, eventID string, nonce Nonce) (seed Hash, ok bool) {
	return keys.Sum(kid, []byte(eventID), nonce[:])
}

// SeedHash returns the hash of a seed, which the commitment publishes before the seed is revealed.
func SeedHash(seed Hash) Hash { return sha256.Sum256(seed[:]) }

// Key computes the key by which entries are ranked: SHA-256(seed ‖ commitment ‖ root ‖ value).
// value is the randomness of the beacon's round, 32 bytes, or empty without a beacon.
func Key(seed, commitment, root Hash, value []byte) Hash {
	b := make([]byte, 0, 4*len(seed))
	b = append(append(append(b, seed[:]...), commitment[:]...), root[:]...)
	return sha256.Sum256(append(b, value...))
}
