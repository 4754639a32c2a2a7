// Package claim draws the secrets in links by which whoever has the link gets a ticket. Only their hashes
// are stored.
package claim

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
)

// size is the length of a claim in bytes: 128 random bits cannot be guessed.
const size = 16

// New draws a claim, as the link carries it.
func New() string {
	secret := make([]byte, size)
	_, _ = rand.Read(secret) // never fails
	return base64.RawURLEncoding.EncodeToString(secret)
}

// Hash returns what is stored of a claim.
func Hash(claim string) []byte {
	sum := sha256.Sum256([]byte(claim))
	return sum[:]
}
