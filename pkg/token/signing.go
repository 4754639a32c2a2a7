package token

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"fmt"
	"slices"
	"strings"

	"urr.guru/pkg/config"
)

// SigningKeys is a set of Ed25519 keys (RFC 8032) for signatures that others verify: the first key
// signs, all verify. The zero value has no keys. It is safe for concurrent use.
type SigningKeys struct {
	keys []signingKey
}

type signingKey struct {
	kid     string
	private ed25519.PrivateKey
}

// ParseSigningKeys reads `kid:seed[,kid:seed…]`, the seeds 32 bytes in base64 (either alphabet); a
// value without a colon is one key with the kid 1. A kid is 1–32 of [A-Za-z0-9_-]. Errors never
// contain a seed.
func ParseSigningKeys(s config.Secret) (SigningKeys, error) {
	raw := strings.TrimSpace(s.Reveal())
	if raw == "" {
		return SigningKeys{}, errors.New("no key: must be kid:seed[,kid:seed…]")
	}
	if !strings.Contains(raw, ":") {
		raw = "1:" + raw
	}
	var set SigningKeys
	for i, part := range strings.Split(raw, ",") {
		kid, encoded, _ := strings.Cut(strings.TrimSpace(part), ":")
		seed, ok := decodeSeed(encoded)
		switch {
		case !validKID(kid):
			return SigningKeys{}, fmt.Errorf("key %d: the kid must be 1–%d of [A-Za-z0-9_-]", i+1, maxKID)
		case !ok:
			return SigningKeys{}, fmt.Errorf("key %s: the seed must be %d bytes in base64", kid, ed25519.SeedSize)
		case set.Public(kid) != nil:
			return SigningKeys{}, fmt.Errorf("key %s is there twice", kid)
		}
		set.keys = append(set.keys, signingKey{kid: kid, private: ed25519.NewKeyFromSeed(seed)})
	}
	return set, nil
}

func decodeSeed(s string) ([]byte, bool) {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	seed, err := base64.RawStdEncoding.DecodeString(s)
	return seed, err == nil && len(seed) == ed25519.SeedSize
}

// Current is the kid that signs; empty for a set without keys.
func (k SigningKeys) Current() string {
	if len(k.keys) == 0 {
		return ""
	}
	return k.keys[0].kid
}

// Kids are the key ids of the set, the one that signs first.
func (k SigningKeys) Kids() []string {
	kids := make([]string, len(k.keys))
	for i, key := range k.keys {
		kids[i] = key.kid
	}
	return kids
}

// Public is the public key of kid, nil when the set has no such key.
func (k SigningKeys) Public(kid string) ed25519.PublicKey {
	i := slices.IndexFunc(k.keys, func(s signingKey) bool { return s.kid == kid })
	if i < 0 {
		return nil
	}
	return k.keys[i].public()
}

// KidOf is the key id of a public key; ok is false when the set has no such key.
func (k SigningKeys) KidOf(public ed25519.PublicKey) (kid string, ok bool) {
	for _, key := range k.keys {
		if bytes.Equal(key.public(), public) {
			return key.kid, true
		}
	}
	return "", false
}

// Sign signs the message with the key kid, nil when the set has no such key.
func (k SigningKeys) Sign(kid string, message []byte) []byte {
	i := slices.IndexFunc(k.keys, func(s signingKey) bool { return s.kid == kid })
	if i < 0 {
		return nil
	}
	return ed25519.Sign(k.keys[i].private, message)
}

// Verify reports whether the key kid signed the message.
func (k SigningKeys) Verify(kid string, message, signature []byte) bool {
	public := k.Public(kid)
	return public != nil && ed25519.Verify(public, message, signature)
}

// String keeps private keys out of logs: it names the kids only.
func (k SigningKeys) String() string { return "keys(" + strings.Join(k.Kids(), ",") + ")" }

// GoString is String, for %#v.
func (k SigningKeys) GoString() string { return k.String() }

func (s signingKey) public() ed25519.PublicKey {
	public, _ := s.private.Public().(ed25519.PublicKey)
	return public
}
