package ticket

import (
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"

	"github.com/google/uuid"

	"urr.guru/pkg/config"
	"urr.guru/pkg/token"
)

// Code is the content of a ticket's code. A door verifies with the public keys alone that the code
// is genuine, and reads its event and place. Only the service knows whether the ticket was used,
// transferred or refunded.
//
// Layout, big-endian, as base64url without padding:
//
//	0x01 | kid length | kid | ticket id 16 | serial u32 | event length | event | place length | place | Ed25519 signature 64
//
// The signature (RFC 8032) covers "urr/ticket/1" and all before it. Lengths are one byte.
type Code struct {
	TicketID uuid.UUID
	// Serial counts the codes of this ticket, of which only the last one is valid.
	Serial  uint32
	EventID string
	// Place is the seat's id, or the section for general admission.
	Place string
}

const (
	codeVersion = 1
	codeDomain  = "urr/ticket/1"
)

// Keys is a set of keys: the first one signs codes, all of them verify codes.
type Keys struct{ set token.SigningKeys }

// ParseKeys parses keys of the form `kid:seed[,kid:seed…]`. Its errors never contain a seed.
func ParseKeys(s config.Secret) (Keys, error) {
	set, err := token.ParseSigningKeys(s)
	return Keys{set: set}, err
}

// Public returns the public keys by key id (kid), in base64. Doors verify codes with them.
func (k Keys) Public() map[string]string {
	public := map[string]string{}
	for _, kid := range k.set.Kids() {
		public[kid] = base64.StdEncoding.EncodeToString(k.set.Public(kid))
	}
	return public
}

// Sign encodes and signs a code. Event ids and places have at most 64 bytes, so that their lengths
// fit into one byte.
func (k Keys) Sign(c Code) string {
	kid := k.set.Current()
	b := make([]byte, 0, 192)
	b = append(b, codeVersion)
	b = appendString(b, kid)
	b = append(b, c.TicketID[:]...)
	b = binary.BigEndian.AppendUint32(b, c.Serial)
	b = appendString(b, c.EventID)
	b = appendString(b, c.Place)
	b = append(b, k.set.Sign(kid, signedMessage(b))...)
	return base64.RawURLEncoding.EncodeToString(b)
}

// Verify decodes a code that one of the keys has signed. ErrCodeInvalid for any other code.
func (k Keys) Verify(code string) (Code, error) {
	b, err := base64.RawURLEncoding.Strict().DecodeString(code)
	if err != nil || len(b) < ed25519.SignatureSize {
		return Code{}, ErrCodeInvalid
	}
	body, signature := b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	r := codeReader{b: body}
	version, kid := r.readBytes(1), string(r.readString())
	var c Code
	copy(c.TicketID[:], r.readBytes(len(c.TicketID)))
	c.Serial = binary.BigEndian.Uint32(r.readBytes(4))
	c.EventID, c.Place = string(r.readString()), string(r.readString())
	if r.short || len(r.b) > 0 || version[0] != codeVersion {
		return Code{}, ErrCodeInvalid
	}
	if !k.set.Verify(kid, signedMessage(body), signature) {
		return Code{}, ErrCodeInvalid
	}
	return c, nil
}

func signedMessage(body []byte) []byte { return append([]byte(codeDomain), body...) }

func appendString(b []byte, s string) []byte {
	return append(append(b, byte(len(s))), s...) //nolint:gosec // at most 64
}

// codeReader reads the fields of a decoded code. If bytes are missing, it returns 0 and sets short.
type codeReader struct {
	b     []byte
	short bool
}

func (r *codeReader) readBytes(n int) []byte {
	if len(r.b) < n {
		r.short, r.b = true, nil
		return make([]byte, n)
	}
	field := r.b[:n]
	r.b = r.b[n:]
	return field
}

func (r *codeReader) readString() []byte { return r.readBytes(int(r.readBytes(1)[0])) }
