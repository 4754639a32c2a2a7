package fairdraw

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/token"
)

// Each signed text starts with its purpose, so that its signature is valid for no other purpose.
const (
	statementDomain = "urr/draw-statement/1"
	receiptDomain   = "urr/draw-receipt/1"
)

// Statement says which requests take part in a draw. It is stored once, then signed as stored, and
// published before the beacon's round exists.
type Statement struct {
	Commitment Hash  `json:"commitment"`
	Root       Hash  `json:"root"`  // Merkle root of the entries
	Count      int64 `json:"count"` // number of the entries
	// The number and the Merkle root of the requests that came in time but do not take part.
	ExcludedCount int64 `json:"excludedCount"`
	ExcludedRoot  Hash  `json:"excludedRoot"`
	// Round is the beacon's round that decides the draw. MissedRounds is the number of earlier
	// rounds for which the root came too late (Commitment.RoundFor). Both are 0 without a beacon.
	Round        uint64 `json:"round"`
	MissedRounds int64  `json:"missedRounds"`
	At           int64  `json:"at"` // ms since the epoch, by the operator's clock: a claim
}

// SignedStatement is a statement as it is published: its canonical JSON, verbatim, and the
// signature of this text.
type SignedStatement struct {
	Statement string `json:"statement"`
	Signature string `json:"signature"` // Ed25519, 64 bytes in lower-case hex
}

// Exclusion is a request that came in time but does not take part in the draw.
type Exclusion struct {
	RequestID string `json:"requestId"`
	Reason    string `json:"reason"` // a result code, such as REJECTED_LATE
}

// NewStatement returns the statement to publish before a draw. root and count describe the list of
// entries (its Merkle tree); excluded is sorted by request id; commitment is the hash of c. The
// draw uses the round of the beacon at the time `at`.
func NewStatement(c *Commitment, commitment Hash, root Hash, count int64, excluded []Exclusion, at time.Time) (Statement, error) {
	excludedRoot, err := ExcludedRoot(excluded)
	if err != nil {
		return Statement{}, err
	}
	// The statement stores milliseconds, and the round must be computed from exactly that time.
	at = time.UnixMilli(at.UnixMilli())
	round, missed := c.RoundFor(at)
	return Statement{
		Commitment: commitment, Root: root, Count: count,
		ExcludedCount: int64(len(excluded)), ExcludedRoot: excludedRoot,
		Round: round, MissedRounds: missed, At: at.UnixMilli(),
	}, nil
}

func (s *Statement) Text() ([]byte, error) { return canonicalJSON(s) }

// ParseStatement reads a statement from the text that Text made.
func ParseStatement(text []byte) (Statement, error) {
	var s Statement
	if err := parseCanonical(text, &s); err != nil {
		return Statement{}, err
	}
	if s.Count < 0 || s.ExcludedCount < 0 || s.MissedRounds < 0 || s.At < 1 || s.At > maxMillis {
		return Statement{}, fmt.Errorf("%w: a number is out of range", ErrMalformed)
	}
	return s, nil
}

// ErrNoKey means that the set lacks the private key of the commitment's StatementKey.
var ErrNoKey = errors.New("fairdraw: the commitment's statement key is not in the set")

// SignStatement signs a stored text with the private key of the commitment's StatementKey. Signing
// the same text again gives the same signature. It fails with ErrNoKey.
func SignStatement(keys token.SigningKeys, c *Commitment, text []byte) (SignedStatement, error) {
	kid, ok := keys.KidOf(c.StatementKey[:])
	if !ok {
		return SignedStatement{}, ErrNoKey
	}
	signature := keys.Sign(kid, append([]byte(statementDomain), text...))
	return SignedStatement{Statement: string(text), Signature: hex.EncodeToString(signature)}, nil
}

func (s SignedStatement) verify(public ed25519.PublicKey) bool {
	signature, ok := parseSignature(s.Signature)
	return ok && ed25519.Verify(public, append([]byte(statementDomain), s.Statement...), signature)
}

func parseSignature(s string) ([]byte, bool) {
	b, err := hex.DecodeString(s)
	return b, err == nil && len(b) == ed25519.SignatureSize && s == strings.ToLower(s)
}

// ExcludedRoot computes the Merkle root of exclusions. A leaf is the 16 bytes of the request id and
// the reason. It fails with ErrUnsorted if ids do not ascend, with ErrMalformed for a wrong id.
func ExcludedRoot(excluded []Exclusion) (Hash, error) {
	var tree Tree
	var last uuid.UUID
	for i, e := range excluded {
		id, ok := parseID(e.RequestID)
		if !ok {
			return Hash{}, fmt.Errorf("%w: %q is not a request id", ErrMalformed, e.RequestID)
		}
		if i > 0 && bytes.Compare(last[:], id[:]) >= 0 {
			return Hash{}, fmt.Errorf("%w: %s is twice or out of order", ErrUnsorted, id)
		}
		tree.Add(leafHash(append(id[:], e.Reason...)))
		last = id
	}
	return tree.Root(), nil
}
