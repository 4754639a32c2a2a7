package fairdraw

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"time"

	"github.com/google/uuid"
	"golang.org/x/crypto/cryptobyte"

	"urr.guru/pkg/ids"
	"urr.guru/pkg/token"
)

// ErrReceipt is the error of every receipt that does not verify: it was signed with another key,
// was changed, or is malformed.
var ErrReceipt = errors.New("fairdraw: receipt not genuine")

// Receipt is the signed answer to an application. Whoever holds it can show others, without the
// operator, that the request was accepted under these terms. Its encoding, big-endian and in
// base64url without padding, is
//
//	0x01 | kid length | kid | event length | event | requestId 16 | time u64 |
//	commitment length (0 or 32) | commitment | Ed25519 signature 64
//
// where the signature (RFC 8032) covers "urr/draw-receipt/1" and all before it. Lengths are one byte.
type Receipt struct {
	EventID   string
	RequestID uuid.UUID
	At        int64 // when the request was received, in ms since the epoch
	// Commitment is the hash of the draw's commitment; zero for an event without a draw.
	Commitment Hash
}

const receiptVersion = 1

var receiptEncoding = base64.RawURLEncoding.Strict()

// Sign encodes the receipt and signs it with the key kid. It returns "" when the set has no such
// key or the event id is invalid. For a draw, kid is the id of the commitment's ReceiptKey (see
// token.SigningKeys.KidOf).
func (r Receipt) Sign(keys token.SigningKeys, kid string) string {
	if !ids.ValidEventID(r.EventID) || keys.Public(kid) == nil {
		return ""
	}
	var b cryptobyte.Builder
	b.AddUint8(receiptVersion)
	addLengthPrefixed(&b, []byte(kid))
	addLengthPrefixed(&b, []byte(r.EventID))
	b.AddBytes(r.RequestID[:])
	b.AddUint64(uint64(r.At)) //nolint:gosec // a time after 1970
	if r.Commitment == (Hash{}) {
		addLengthPrefixed(&b, nil)
	} else {
		addLengthPrefixed(&b, r.Commitment[:])
	}
	body := b.BytesOrPanic()
	return receiptEncoding.EncodeToString(append(body, keys.Sign(kid, signedReceiptBytes(body))...))
}

func (r Receipt) Time() time.Time { return time.UnixMilli(r.At).UTC() }

// OpenReceipt verifies and decodes a receipt. public is the ReceiptKey of the commitment. Every
// failure is ErrReceipt.
func OpenReceipt(public ed25519.PublicKey, s string) (Receipt, error) {
	// The decoder skips line breaks, so a text with line breaks is recognised by its length.
	b, err := receiptEncoding.DecodeString(s)
	if err != nil || len(b) < ed25519.SignatureSize || len(s) != receiptEncoding.EncodedLen(len(b)) {
		return Receipt{}, ErrReceipt
	}
	body, signature := b[:len(b)-ed25519.SignatureSize], b[len(b)-ed25519.SignatureSize:]
	if !ed25519.Verify(public, signedReceiptBytes(body), signature) {
		return Receipt{}, ErrReceipt
	}
	var version uint8
	var kid, event, commitment cryptobyte.String
	var id []byte
	var at uint64
	in := cryptobyte.String(body)
	if !in.ReadUint8(&version) || !in.ReadUint8LengthPrefixed(&kid) || !in.ReadUint8LengthPrefixed(&event) ||
		!in.ReadBytes(&id, entrySize) || !in.ReadUint64(&at) || !in.ReadUint8LengthPrefixed(&commitment) ||
		!in.Empty() || version != receiptVersion || at > maxMillis || (len(commitment) != 0 && len(commitment) != sha256.Size) {
		return Receipt{}, ErrReceipt
	}
	r := Receipt{EventID: string(event), RequestID: uuid.UUID(id), At: int64(at)} //nolint:gosec // at most maxMillis
	copy(r.Commitment[:], commitment)
	return r, nil
}

func signedReceiptBytes(body []byte) []byte { return append([]byte(receiptDomain), body...) }

func addLengthPrefixed(b *cryptobyte.Builder, value []byte) {
	b.AddUint8LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes(value) })
}
