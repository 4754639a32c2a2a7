package ticket

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Code is the content of a ticket's code. With the public keys alone a door verifies that it is
// genuine, for which event and for which place; whether it was used, transferred or refunded only
// the service knows.
//
// Layout, big-endian, as base64url without padding:
//
//	0x01 | kid length | kid | ticket id 16 | serial u32 | event length | event | place length | place | Ed25519 signature 64
//
// The signature (RFC 8032) covers "urr/ticket/1" and all before it. Lengths are one byte.
type Code struct {
	TicketID uuid.UUID
	// Serial counts the codes of this ticket; only the last one admits.
	Serial  uint32
	EventID string
	// Place is the seat's id, or the section for general admission.
	Place string
}

const (
	codeVersion = 1
	codeDomain  = "urr/ticket/1"
	maxKID      = 32
	// kidCharacters are safe in the variable's syntax and in file names.
	kidCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
)

// Keys sign codes with the first key and verify with all of them.
type Keys struct{ keys []signingKey }

type signingKey struct {
	kid     string
	private ed25519.PrivateKey
}

// ParseKeys reads `kid:seed[,kid:seed…]`, the seeds 32 bytes in base64 (either alphabet); a value
// without a colon is one key with the kid 1. Errors never contain a seed.
func ParseKeys(s string) (Keys, error) {
	if s = strings.TrimSpace(s); s == "" {
		return Keys{}, errors.New("no key: must be kid:seed[,kid:seed…]")
	}
	if !strings.Contains(s, ":") {
		s = "1:" + s
	}
	var k Keys
	for i, part := range strings.Split(s, ",") {
		kid, encoded, _ := strings.Cut(strings.TrimSpace(part), ":")
		seed, ok := decodeSeed(encoded)
		switch {
		case !validKID(kid):
			return Keys{}, fmt.Errorf("key %d: the kid must be 1–%d of [A-Za-z0-9_-]", i+1, maxKID)
		case !ok:
			return Keys{}, fmt.Errorf("key %s: the seed must be %d bytes in base64", kid, ed25519.SeedSize)
		case k.find(kid) != nil:
			return Keys{}, fmt.Errorf("key %s is there twice", kid)
		}
		k.keys = append(k.keys, signingKey{kid: kid, private: ed25519.NewKeyFromSeed(seed)})
	}
	return k, nil
}

func decodeSeed(s string) ([]byte, bool) {
	s = strings.TrimRight(strings.NewReplacer("-", "+", "_", "/").Replace(s), "=")
	seed, err := base64.RawStdEncoding.DecodeString(s)
	return seed, err == nil && len(seed) == ed25519.SeedSize
}

func validKID(s string) bool {
	return len(s) >= 1 && len(s) <= maxKID && strings.Trim(s, kidCharacters) == ""
}

// Public returns the public keys, in base64 by kid, for the doors.
func (k Keys) Public() map[string]string {
	public := make(map[string]string, len(k.keys))
	for _, key := range k.keys {
		pub, _ := key.private.Public().(ed25519.PublicKey)
		public[key.kid] = base64.StdEncoding.EncodeToString(pub)
	}
	return public
}

// Sign makes the code. Event ids and places are at most 64 bytes long everywhere, so their lengths
// fit.
func (k Keys) Sign(c Code) string {
	key := k.keys[0]
	b := make([]byte, 0, 192)
	b = append(b, codeVersion)
	b = appendString(b, key.kid)
	b = append(b, c.TicketID[:]...)
	b = binary.BigEndian.AppendUint32(b, c.Serial)
	b = appendString(b, c.EventID)
	b = appendString(b, c.Place)
	b = append(b, ed25519.Sign(key.private, signed(b))...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Verify reads a code that one of the keys signed; ErrCodeInvalid for anything else.
func (k Keys) Verify(code string) (Code, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || len(b) < ed25519.SignatureSize {
		return Code{}, ErrCodeInvalid
	}
	body, signature := b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	r := reader{b: body}
	version, kid := r.take(1), string(r.str())
	var c Code
	copy(c.TicketID[:], r.take(len(c.TicketID)))
	c.Serial = binary.BigEndian.Uint32(r.take(4))
	c.EventID, c.Place = string(r.str()), string(r.str())
	if r.short || len(r.b) > 0 || version[0] != codeVersion {
		return Code{}, ErrCodeInvalid
	}
	key := k.find(kid)
	if key == nil {
		return Code{}, ErrCodeInvalid
	}
	public, _ := key.private.Public().(ed25519.PublicKey)
	if !ed25519.Verify(public, signed(body), signature) {
		return Code{}, ErrCodeInvalid
	}
	return c, nil
}

func (k Keys) find(kid string) *signingKey {
	i := slices.IndexFunc(k.keys, func(s signingKey) bool { return s.kid == kid })
	if i < 0 {
		return nil
	}
	return &k.keys[i]
}

func signed(body []byte) []byte { return append([]byte(codeDomain), body...) }

func appendString(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...) //nolint:gosec // at most 64
}

// reader reads the fields of a body; missing bytes read as zeros and set short.
type reader struct {
	b     []byte
	short bool
}

func (r *reader) take(n int) []byte {
	if len(r.b) < n {
		r.short, r.b = true, nil
		return make([]byte, n)
	}
	taken := r.b[:n]
	r.b = r.b[n:]
	return taken
}

func (r *reader) str() []byte { return r.take(int(r.take(1)[0])) }
