package token

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"strings"

	"urr.guru/pkg/config"
)

// SigningKeys is a set of Ed25519 keys (RFC 8032). Verifying its signatures needs no secret. The
// first key signs, all verify. The zero value has no keys. It is safe for concurrent use.
type SigningKeys struct {
	keyList[ed25519.PrivateKey]
}

// ParseSigningKeys reads `kid:seed[,kid:seed…]`, the seeds 32 bytes in base64 (either alphabet); a
// value without a colon is one key with the kid 1. A kid is 1–32 of [A-Za-z0-9_-]. It refuses
// repeated kids; errors never contain a seed.
func ParseSigningKeys(s config.Secret) (SigningKeys, error) {
	keys, err := parseKeys(s, "seed", func(encoded string) (ed25519.PrivateKey, error) {
		encoded = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(encoded), "=")
		seed, err := base64.RawStdEncoding.DecodeString(encoded)
		if err != nil || len(seed) != ed25519.SeedSize {
			return nil, fmt.Errorf("must be %d bytes in base64", ed25519.SeedSize)
		}
		return ed25519.NewKeyFromSeed(seed), nil
	})
	return SigningKeys{keys}, err
}

// Public returns the public key of kid; nil when the set has no such key.
func (k SigningKeys) Public(kid string) ed25519.PublicKey {
	private, ok := k.findKey(kid)
	if !ok {
		return nil
	}
	return publicOf(private)
}

// KidOf returns the id of a public key; ok is false when the set has no such key.
func (k SigningKeys) KidOf(public ed25519.PublicKey) (kid string, ok bool) {
	for _, x := range k.keyList {
		if bytes.Equal(publicOf(x.key), public) {
			return x.kid, true
		}
	}
	return "", false
}

// Sign signs a message with the key kid; it returns nil when the set has no such key.
func (k SigningKeys) Sign(kid string, message []byte) []byte {
	private, ok := k.findKey(kid)
	if !ok {
		return nil
	}
	return ed25519.Sign(private, message)
}

func (k SigningKeys) Verify(kid string, message, signature []byte) bool {
	public := k.Public(kid)
	return public != nil && ed25519.Verify(public, message, signature)
}

func publicOf(private ed25519.PrivateKey) ed25519.PublicKey {
	public, _ := private.Public().(ed25519.PublicKey) // the only type that it returns
	return public
}
