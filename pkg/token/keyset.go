// Package token signs and verifies with key sets: JWTs (HMAC-SHA256, `kid`, pinned algorithm,
// required expiry and audience), MACs with keys derived by label, and Ed25519 signatures for
// verifiers without a secret. The first key of a set signs, all verify, so that a key can be
// replaced without invalidating earlier signatures: append the new key, move it to the front, drop
// the old one after the longest lifetime.
package token

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"urr.guru/pkg/config"
)

// MinSecret is the shortest secret in bytes: the output of SHA-256 (RFC 7518 §3.2).
const MinSecret = 32

// maxKID keeps a key id within the one length byte of the compact ticket.
const maxKID = 32

type key struct {
	kid    string
	secret []byte
}

// KeySet is the set of keys of one purpose. The zero value has no keys and signs nothing. It is
// safe for concurrent use.
type KeySet struct {
	keys []key
}

// ParseKeySet reads `kid:secret[,kid:secret…]`; a value without a colon is one key with the kid 1.
// A kid is 1–32 of [A-Za-z0-9_-]. It refuses secrets shorter than MinSecret bytes and repeated
// kids; errors never contain a secret.
func ParseKeySet(s config.Secret) (KeySet, error) {
	raw := strings.TrimSpace(s.Reveal())
	if raw == "" {
		return KeySet{}, errors.New("no key: must be kid:secret[,kid:secret…]")
	}
	if !strings.Contains(raw, ":") {
		raw = "1:" + raw
	}
	var set KeySet
	for i, part := range strings.Split(raw, ",") {
		kid, secret, ok := strings.Cut(strings.TrimSpace(part), ":")
		switch {
		case !ok || !validKID(kid):
			return KeySet{}, fmt.Errorf("key %d: must be kid:secret, the kid 1–%d of [A-Za-z0-9_-]", i+1, maxKID)
		case len(secret) < MinSecret:
			return KeySet{}, fmt.Errorf("key %s: the secret has %d bytes, at least %d are needed", kid, len(secret), MinSecret)
		case set.find(kid) != nil:
			return KeySet{}, fmt.Errorf("key %s is there twice", kid)
		}
		set.keys = append(set.keys, key{kid: kid, secret: []byte(secret)})
	}
	return set, nil
}

// find returns the secret of kid, nil when the set has no such key.
func (k KeySet) find(kid string) []byte {
	i := slices.IndexFunc(k.keys, func(x key) bool { return x.kid == kid })
	if i < 0 {
		return nil
	}
	return k.keys[i].secret
}

func validKID(s string) bool {
	if len(s) < 1 || len(s) > maxKID {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") == ""
}

// String keeps secrets out of logs: it names the kids only.
func (k KeySet) String() string {
	kids := make([]string, len(k.keys))
	for i, x := range k.keys {
		kids[i] = x.kid
	}
	return "keys(" + strings.Join(kids, ",") + ")"
}

// GoString is String, for %#v.
func (k KeySet) GoString() string { return k.String() }
