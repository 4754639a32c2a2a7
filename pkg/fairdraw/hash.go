package fairdraw

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gowebpki/jcs"
)

// Hash is a SHA-256 value, or a key of that size. In JSON it is 64 lower-case hex digits.
type Hash [sha256.Size]byte

// ErrMalformed is the error of text that is not in its one canonical form.
var ErrMalformed = errors.New("fairdraw: malformed")

// ParseHash reads 64 lower-case hex digits, the only spelling that is accepted.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) != 2*len(h) || strings.Trim(s, "0123456789abcdef") != "" {
		return Hash{}, fmt.Errorf("%w: want %d lower-case hex digits", ErrMalformed, 2*len(h))
	}
	_, err := hex.Decode(h[:], []byte(s))
	return h, err
}

func (h Hash) String() string               { return hex.EncodeToString(h[:]) }
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

func (h *Hash) UnmarshalText(text []byte) error {
	var err error
	*h, err = ParseHash(string(text))
	return err
}

// canonicalJSON encodes v as RFC 8785 says: the same content always has the same bytes.
func canonicalJSON(v any) ([]byte, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("fairdraw: %w", err)
	}
	return jcs.Transform(raw)
}

// parseCanonical reads the canonical JSON of a value. It refuses any other spelling, and unknown or
// repeated fields. Otherwise two programs could read different content in the same signed bytes.
func parseCanonical[T any](raw []byte, v *T) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	text, err := canonicalJSON(v)
	if err != nil {
		return err
	}
	if !bytes.Equal(text, raw) {
		return fmt.Errorf("%w: not the canonical JSON (RFC 8785) of its content", ErrMalformed)
	}
	return nil
}
