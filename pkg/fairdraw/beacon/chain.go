// Package beacon verifies and fetches rounds of a drand randomness beacon (https://docs.drand.love).
// A round is published at a fixed time and carries a BLS signature of its number by the chain's
// group key. A signature of a number is unique, and so is the value derived from it: whoever
// publishes a round can withhold it, but cannot choose its value.
package beacon

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cloudflare/circl/sign/bls"
)

// The supported signature schemes. Both are unchained: a round is verified without the one before.
const (
	// SchemeG1 has 48-byte signatures in G1 and 96-byte keys in G2, hashed to the curve as in RFC
	// 9380; drand's network quicknet uses it.
	SchemeG1 = "bls-unchained-g1-rfc9380"
	// SchemeG2 has 96-byte signatures in G2 and 48-byte keys in G1.
	SchemeG2 = "pedersen-bls-unchained"
)

// Errors of Verify.
var (
	ErrSignature  = errors.New("beacon: the chain's key did not sign this round")
	ErrRandomness = errors.New("beacon: the value is not the hash of the signature")
)

// Chain describes a beacon, as the beacon's /info publishes it. It contains all that is needed to
// verify rounds. The chain's hash covers all other fields except the scheme, so that a known hash
// implies the key and the rounds' times.
type Chain struct {
	Scheme    string `json:"scheme"`
	ChainHash string `json:"chainHash"` // 32 bytes in lower-case hex; the chain's name in URLs
	PublicKey string `json:"publicKey"` // compressed, in lower-case hex
	Genesis   int64  `json:"genesis"`   // time of round 1, in seconds since the epoch
	Period    int64  `json:"periodSeconds"`
	GroupHash string `json:"groupHash"` // hash of the nodes that founded the chain; 32 bytes in hex
	BeaconID  string `json:"beaconId"`  // distinguishes the chains of the same nodes
}

// Round is one published round, in drand's JSON form.
type Round struct {
	Round      uint64 `json:"round"`      // from 1
	Randomness string `json:"randomness"` // SHA-256 of the signature, 32 bytes in hex
	Signature  string `json:"signature"`  // compressed, in lower-case hex
}

// Quicknet is the public network that the League of Entropy runs
// (https://docs.drand.love/docs/dev-guide/).
func Quicknet() Chain {
	return Chain{
		Scheme:    SchemeG1,
		ChainHash: "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971",
		PublicKey: "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a",
		Genesis:   1692803367, Period: 3,
		GroupHash: "f477d5c89f21a17c863a7f937c6a6d15859414d2be09cd448d4279af331c5d3e", BeaconID: "quicknet",
	}
}

// Network returns the name of the public network to which the chain belongs. It is empty for any
// other chain, whose owner may know every value beforehand.
func (c Chain) Network() string {
	if c == Quicknet() {
		return "drand quicknet"
	}
	return ""
}

// defaultID is a beacon id that drand treats like an empty one when it computes the hash.
const defaultID = "default"

// Hash computes the chain's hash as drand does: SHA-256 of the period (4 bytes), the genesis (8
// bytes), both big-endian, the key, the group's hash and the beacon's id. It is empty if the key or
// the group's hash is not hex.
func (c Chain) Hash() string {
	key, err := hex.DecodeString(c.PublicKey)
	group, groupErr := hex.DecodeString(c.GroupHash)
	if err != nil || groupErr != nil {
		return ""
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(c.Period)) //nolint:gosec // at most maxPeriod
	b = binary.BigEndian.AppendUint64(b, uint64(c.Genesis))   //nolint:gosec // after 1970
	b = append(append(b, key...), group...)
	if c.BeaconID != defaultID {
		b = append(b, c.BeaconID...)
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Limits that keep the arithmetic of rounds exact, also in JavaScript.
const (
	maxGenesis = 253402300799 // the end of the year 9999
	maxPeriod  = 24 * 60 * 60
	maxID      = 64 // characters of a beacon's id
)

// Validate checks the form of each field, that the public key is a point of its group, and that
// ChainHash is the hash of the other fields.
func (c Chain) Validate() error {
	if _, _, err := c.keyAndSignatureSizes(); err != nil {
		return err
	}
	if !isHex(c.ChainHash, sha256.Size) {
		return errors.New("beacon: chainHash must be 32 bytes in lower-case hex")
	}
	if !isHex(c.GroupHash, sha256.Size) {
		return errors.New("beacon: groupHash must be 32 bytes in lower-case hex")
	}
	if len(c.BeaconID) > maxID || strings.Trim(c.BeaconID, idCharacters) != "" {
		return fmt.Errorf("beacon: beaconId must be at most %d letters, digits, - and _", maxID)
	}
	if c.Genesis < 0 || c.Genesis > maxGenesis {
		return errors.New("beacon: genesis must be a time in seconds")
	}
	if c.Period < 1 || c.Period > maxPeriod {
		return fmt.Errorf("beacon: periodSeconds must be 1–%d", maxPeriod)
	}
	if _, err := c.signatureVerifier(); err != nil {
		return fmt.Errorf("beacon: public key: %w", err)
	}
	if c.ChainHash != c.Hash() {
		return errors.New("beacon: chainHash is not the hash of period, genesis, key, group hash and id")
	}
	return nil
}

// TimeOf returns the time at which a round is published.
func (c Chain) TimeOf(round uint64) time.Time {
	return time.Unix(c.Genesis+(int64(round)-1)*c.Period, 0).UTC() //nolint:gosec // rounds come from FirstAt
}

// FirstAt returns the number of the first round that is published at t or later.
func (c Chain) FirstAt(t time.Time) uint64 {
	at := t.Unix()
	if t.Nanosecond() > 0 {
		at++
	}
	if at <= c.Genesis {
		return 1
	}
	return uint64((at-c.Genesis+c.Period-1)/c.Period) + 1 //nolint:gosec // positive
}

// Verify checks that the chain's key signed the round, and that the round's value is the hash of
// the signature. It fails with ErrSignature or ErrRandomness, or for a malformed public key.
func (c Chain) Verify(r Round) error {
	verify, err := c.signatureVerifier()
	if err != nil {
		return err
	}
	_, size, err := c.keyAndSignatureSizes()
	if err != nil {
		return err
	}
	// An uncompressed signature is refused: the library would accept it, but its hash differs.
	if r.Round == 0 || !isHex(r.Signature, size) {
		return ErrSignature
	}
	signature, err := hex.DecodeString(r.Signature)
	if err != nil || signature[0]&0x80 == 0 || !verify(signedMessage(r.Round), signature) {
		return ErrSignature
	}
	if sum := sha256.Sum256(signature); r.Randomness != hex.EncodeToString(sum[:]) {
		return ErrRandomness
	}
	return nil
}

// signedMessage returns what the beacon signs for a round: SHA-256 of its number, big-endian.
func signedMessage(round uint64) []byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64(nil, round))
	return sum[:]
}

func (c Chain) keyAndSignatureSizes() (key, signature int, err error) {
	switch c.Scheme {
	case SchemeG1:
		return 96, 48, nil
	case SchemeG2:
		return 48, 96, nil
	default:
		return 0, 0, fmt.Errorf("beacon: scheme %q is not supported", c.Scheme)
	}
}

func (c Chain) signatureVerifier() (func(message, signature []byte) bool, error) {
	size, _, err := c.keyAndSignatureSizes()
	if err != nil {
		return nil, err
	}
	if !isHex(c.PublicKey, size) {
		return nil, fmt.Errorf("beacon: the public key must be %d bytes in lower-case hex", size)
	}
	key, err := hex.DecodeString(c.PublicKey)
	if err != nil {
		return nil, err
	}
	if c.Scheme == SchemeG1 {
		return parseVerifier[bls.KeyG2SigG1](key)
	}
	return parseVerifier[bls.KeyG1SigG2](key)
}

func parseVerifier[K bls.KeyGroup](key []byte) (func(message, signature []byte) bool, error) {
	public := new(bls.PublicKey[K])
	if err := public.UnmarshalBinary(key); err != nil {
		return nil, err
	}
	if !public.Validate() {
		return nil, bls.ErrInvalidKey
	}
	return func(message, signature []byte) bool { return bls.Verify(public, message, signature) }, nil
}

// idCharacters are allowed in a beacon's id. The chain's hash covers key, group hash and id without
// separators: an id of these characters cannot be mistaken for a part of a key.
const idCharacters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

// isHex reports whether s is the lower-case hex of size bytes. Another spelling has another hash.
func isHex(s string, size int) bool {
	return len(s) == 2*size && strings.Trim(s, "0123456789abcdef") == ""
}
