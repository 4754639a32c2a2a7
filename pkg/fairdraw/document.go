package fairdraw

import (
	"encoding/json"
	"fmt"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/ids"
)

// Phase says how far a draw has come.
type Phase string

// Phases, in their order; VOID ends a draw before its round.
const (
	PhaseOpen    Phase = "OPEN"    // the commitment is public
	PhaseClosed  Phase = "CLOSED"  // no more entries
	PhaseRoot    Phase = "ROOT"    // the statement is public
	PhaseDrawn   Phase = "DRAWN"   // the result exists; until it is published at the announcement, ROOT is shown instead
	PhaseSettled Phase = "SETTLED" // every request has its result
	PhaseVoid    Phase = "VOID"    // the operator cancelled the draw
)

// Document is the public state of a draw or a shuffle. With it and the file of the entries anyone
// can verify the result. Fields are added as the draw proceeds; empty fields are absent.
type Document struct {
	EventID string `json:"eventId"`
	Phase   Phase  `json:"phase"`
	// Commitment is the canonical JSON of the Commitment, verbatim.
	Commitment     string `json:"commitment"`
	CommitmentHash string `json:"commitmentHash"` // SHA-256 of the text in Commitment, in hex
	// Statement and Excluded are present from the phase ROOT on.
	Statement *SignedStatement `json:"statement,omitempty"`
	Excluded  []Exclusion      `json:"excluded,omitempty"` // sorted by request id
	// Beacon is present once the beacon's round is stored. The fields below it, up to OrderHash, are
	// present from the announcement on.
	Beacon  *beacon.Round `json:"beacon,omitempty"`
	Seed    string        `json:"seed,omitempty"`    // 32 bytes in hex; zeros when it was not revealed in time
	Winners []string      `json:"winners,omitempty"` // of a draw: request ids, the first rank first
	// OrderHash, of a shuffle, is the SHA-256 of all request ids (16 bytes each) in the order of
	// their positions, in hex.
	OrderHash string `json:"orderHash,omitempty"`
	VoidedAt  int64  `json:"voidedAt,omitempty"` // ms since the epoch
	// VoidReason is the operator's reason for cancelling a draw whose result could be known.
	VoidReason string `json:"voidReason,omitempty"`
	// SavedAt, in ms since the epoch, is set by whoever saves a copy (Options.Earlier).
	SavedAt int64 `json:"savedAt,omitempty"`
}

// ParseDocument reads the JSON of a Document. It ignores unknown fields, which a later release may
// add: everything that Verify needs is in the signed texts.
func ParseDocument(b []byte) (*Document, error) {
	d := new(Document)
	if err := json.Unmarshal(b, d); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	if d.Commitment == "" {
		return nil, fmt.Errorf("%w: no commitment", ErrMalformed)
	}
	return d, nil
}

func parseID(s string) (uuid.UUID, bool) {
	if !ids.ValidUUID(s) {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}
