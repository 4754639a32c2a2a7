package claims

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"time"

	"urr.guru/pkg/token"
)

const challengeBodySize = 8 + 8 + 1 + hashLen

var challengeDomain = []byte("urr/pow/1")

// Challenge is the puzzle of a proof of work (pkg/proofofwork). It is signed, so that gateways need
// not store the challenges that they issue. Its encoding, big-endian and in base64url, is
//
//	0x01 | kid length | kid | round u64 | expires u64 | bits u8 | SHA-256(visitor)[:16] |
//	HMAC-SHA256 32
//
// where expires is in epoch ms, and the MAC covers "urr/pow/1", the event id prefixed by its length
// (one byte), and everything before the MAC. The MAC makes the challenge unpredictable.
type Challenge struct {
	Round   int64 // start of the waiting room's round, in µs since the epoch
	Expires time.Time
	Bits    uint8 // difficulty: leading zero bits of the solution's hash
}

// Seal encodes and signs the challenge for one event (id of 1–64 bytes) and one visitor. It returns
// "" when keys has no key.
func (c Challenge) Seal(keys token.MACSet, eventID, visitor string) string {
	var buf [maxSealedSize]byte
	b := appendHeader(buf[:0], keys.Current())
	b = binary.BigEndian.AppendUint64(b, uint64(c.Round))               //nolint:gosec // a time after 1970
	b = binary.BigEndian.AppendUint64(b, uint64(c.Expires.UnixMilli())) //nolint:gosec // a time after 1970
	b = append(b, c.Bits)
	h := sha256.Sum256([]byte(visitor))
	b = append(b, h[:hashLen]...)
	return encodeWithMAC(keys, challengeDomain, eventID, b)
}

// OpenChallenge verifies that a challenge was issued for this event and visitor; every failure is
// ErrForged. The caller checks the round and the expiry.
func OpenChallenge(keys token.MACSet, eventID, visitor, s string) (Challenge, error) {
	var buf [maxSealedSize]byte
	body, ok := verifyAndDecode(keys, challengeDomain, eventID, s, &buf, challengeBodySize)
	if !ok {
		return Challenge{}, ErrForged
	}
	h := sha256.Sum256([]byte(visitor))
	if subtle.ConstantTimeCompare(h[:hashLen], body[17:]) != 1 {
		return Challenge{}, ErrForged
	}
	return Challenge{
		Round:   int64(binary.BigEndian.Uint64(body)),                       //nolint:gosec // as sealed
		Expires: time.UnixMilli(int64(binary.BigEndian.Uint64(body[8:16]))), //nolint:gosec // as sealed
		Bits:    body[16],
	}, nil
}
