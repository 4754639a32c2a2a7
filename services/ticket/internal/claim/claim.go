// Package claim makes the random secrets (claims) of links to tickets. Whoever has such a link gets
// the tickets. Only hashes of claims are stored.
package claim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// size is the length of a claim in bytes: 128 random bits cannot be guessed.
const size = 16

// New returns a new random claim, in the form that a link contains.
func New() string {
	secret := make([]byte, size)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// Hash returns the hash that is stored in place of a claim.
func Hash(claim string) []byte {
	sum := sha256.Sum256([]byte(claim))
	return sum[:]
}
