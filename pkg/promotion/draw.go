package promotion

import (
	"fmt"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
)

// DrawPhase says how far a draw has come.
//
//	OPEN → CLOSED → ROOT → DRAWN → SETTLED    as the draw proceeds
//	OPEN, CLOSED, ROOT or DRAWN → VOID        cancelled, or the beacon never publishes its round
//	DRAWN → ROOT                              the seed was not revealed in time
//
// An operator cancels a draw before the beacon's round, or later if a key is lost (VoidReason). A
// draw that returned to ROOT is decided again. Nothing of its first decision was public.
type DrawPhase string

// The phases of a draw.
const (
	DrawOpen    DrawPhase = "OPEN"    // the draw has no item yet
	DrawClosed  DrawPhase = "CLOSED"  // entries and exclusions no longer change
	DrawRoot    DrawPhase = "ROOT"    // the signed statement is public
	DrawDrawn   DrawPhase = "DRAWN"   // the winners are stored; public once the seed is stored, at the announcement
	DrawSettled DrawPhase = "SETTLED" // every request has its result
	DrawVoid    DrawPhase = "VOID"    // there will be no result
)

// VoidReason says what was lost, so that a draw was cancelled although its result could be known.
// Without such a loss an operator may cancel a draw only before the beacon's round.
type VoidReason string

// The losses for which a draw may be cancelled late.
const (
	SigningKeyLost VoidReason = "SIGNING_KEY_LOST"
	SeedKeyLost    VoidReason = "SEED_KEY_LOST"
	BeaconLost     VoidReason = "BEACON_LOST" // the beacon has not published the round (fairdraw.BeaconDeadline)
)

// Draw is the state of a lottery's draw. Every write requires that the stored phase, statement,
// signature, value and seed are still as they were read. Times are epoch milliseconds.
type Draw struct {
	EventID string
	Phase   DrawPhase

	ClosedAt int64 // when the list of the entries became final
	// Statement is the canonical text (fairdraw.Statement). It is stored before it is signed, so that
	// there is one signed statement; it is public from the phase ROOT on, with its signature.
	Statement, Signature string
	RootAt               int64
	Beacon               *beacon.Round // the round that decides; nil: not known, or the draw has no beacon
	ZeroSeed             bool          // the operator's seed was not revealed in time: zeros replace it
	WinnersCount         int64         // how many winners are stored
	DrawnAt              int64
	Seed                 string // stored at the announcement: the result is public from then on
	AnnouncedAt          int64  // when the seed was stored
	SettledAt            int64  // when the last request had its result, also of a void draw
	VoidedAt             int64
	VoidReason           VoidReason // empty if cancelled in time
	// DueAt is when the next step is possible, 0: at once. Draws not yet settled are listed by it.
	DueAt int64
}

// DecidingRound returns the beacon's round that decides the draw. It fails before the statement is
// stored; it is 0 without a beacon.
func (d *Draw) DecidingRound(terms *fairdraw.Commitment) (uint64, error) {
	s, err := fairdraw.ParseStatement([]byte(d.Statement))
	if err != nil || terms.Beacon == nil {
		return 0, err
	}
	if d.ZeroSeed {
		return terms.ZeroSeedRound(s.Round), nil
	}
	return s.Round, nil
}

// Public reports whether the signed statement, with the lists of entries and exclusions, is public.
func (d *Draw) Public() bool { return d.Signature != "" }

// Announced reports whether the result is public. One process stores the seed at the announcement,
// so that all readers agree.
func (d *Draw) Announced() bool { return d.Seed != "" }

// Document returns the public part of the draw. The caller adds the exclusions if d is Public, and
// the winners if it is Announced.
func (d *Draw) Document(p *Promotion) (fairdraw.Document, error) {
	_, hash, err := fairdraw.ParseCommitment([]byte(p.Commitment))
	if err != nil {
		return fairdraw.Document{}, fmt.Errorf("draw of %s: %w", d.EventID, err)
	}
	out := fairdraw.Document{
		EventID: d.EventID, Phase: fairdraw.Phase(d.Phase), Commitment: p.Commitment, CommitmentHash: hash.String(),
		Seed: d.Seed, VoidedAt: d.VoidedAt, VoidReason: string(d.VoidReason),
	}
	if d.Phase == DrawDrawn && !d.Announced() {
		out.Phase = fairdraw.PhaseRoot
	}
	if d.Public() {
		out.Statement = &fairdraw.SignedStatement{Statement: d.Statement, Signature: d.Signature}
		out.Beacon = d.Beacon
	}
	return out, nil
}
