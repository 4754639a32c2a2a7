// Package token signs and verifies with sets of keys: JWTs (HMAC-SHA256, `kid`, pinned algorithm,
// required expiry and audience), MACs with keys derived by label, and Ed25519 signatures for
// verifiers without a secret. The first key of a set signs, all verify, so that a key can be
// replaced without invalidating earlier signatures: append the new key, move it to the front, drop
// the old one after the longest lifetime.
package token

import (
	"fmt"

	"urr.guru/pkg/config"
)

// MinSecret is the shortest secret, in bytes: the size of a SHA-256 value (RFC 7518 §3.2).
const MinSecret = 32

// KeySet is a set of secret keys for one purpose. The zero value has no keys and signs nothing. It
// is safe for concurrent use.
type KeySet struct {
	keyList[[]byte]
}

// ParseKeySet reads `kid:secret[,kid:secret…]`; a value without a colon is one key with the kid 1.
// A kid is 1–32 of [A-Za-z0-9_-]. It refuses secrets shorter than MinSecret bytes and repeated
// kids; errors never contain a secret.
func ParseKeySet(s config.Secret) (KeySet, error) {
	keys, err := parseKeys(s, "secret", func(secret string) ([]byte, error) {
		if len(secret) < MinSecret {
			return nil, fmt.Errorf("has %d bytes, at least %d are needed", len(secret), MinSecret)
		}
		return []byte(secret), nil
	})
	return KeySet{keys}, err
}
