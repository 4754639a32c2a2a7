// Package lobby runs the lobbies of tier 1. Signed-in users join a lobby before the start of its
// room, once each. At the start a verifiable shuffle (urr.guru/pkg/fairdraw) orders the entries;
// later arrivals get positions behind them. The phases are:
//
//	joining   an entry per user; each gets a signed receipt
//	closed    the groups take no more entries; from then on every replica lists the same entries
//	root      the statement about the entries is stored once, then signed as stored, at least a
//	          minute before the beacon's round
//	value     the value of the beacon's round is fetched and stored
//	shuffled  at the start: the seed is published, and the entries have the positions 1…n
//
// Every replica runs a Driver, without a leader. Each step is one conditional write, so several
// replicas may try a step at once, and any of them continues after another was killed.
package lobby

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/services/vwr/internal/room"
)

// Key identifies the lobby of a round.
type Key struct {
	EventID string
	Round   room.Round
}

func (k Key) String() string { return fmt.Sprintf("%s/%d", k.EventID, k.Round) }

// Entry is a user's entry in a lobby. It is stored before the user gets the receipt.
type Entry struct {
	Key

	RequestID uuid.UUID
	User      string
	JoinedAt  int64 // ms since the epoch
	StartsAt  int64 // start of the room in ms; decides how long a new entry is kept
}

// Shuffle is the stored state of a shuffle. The fields get their values in this order, each once.
type Shuffle struct {
	Key

	Commitment string // canonical JSON
	Nonce      fairdraw.Nonce
	Statement  string        // canonical JSON
	Signature  string        // of the statement
	Beacon     *beacon.Round // nil without a beacon
	Seed       string        // hex; zeros if it was not revealed in time
	OrderHash  string        // hex
	VoidedAt   int64         // ms since the epoch; 0 unless the lobby is void
}

// isFinal reports whether the shuffle can change no more: it has a result, or is void.
func (s *Shuffle) isFinal() bool { return s.Seed != "" || s.VoidedAt != 0 }

// signedStatement returns the statement with its signature, as published; nil until it is signed.
func (s *Shuffle) signedStatement() *fairdraw.SignedStatement {
	if s.Signature == "" {
		return nil
	}
	return &fairdraw.SignedStatement{Statement: s.Statement, Signature: s.Signature}
}

// Store combines the interfaces of a store of lobbies; most callers need only some. A conditional
// write fails with room.ErrStale if the stored state is not the expected one. Then the caller reads
// it again.
type Store struct {
	Entries    EntryStore
	Shuffles   ShuffleReader
	Steps      ShuffleWriter
	Unfinished UnfinishedLobbies
}

// EntryStore stores the entries of lobbies.
type EntryStore interface {
	// Join stores an entry, or returns the one that its user already has. If open is false, it fails
	// with room.ErrLobbyClosed for a new entry.
	Join(ctx context.Context, e Entry, open bool) (Entry, error)
	// Entry reads an entry consistently.
	Entry(ctx context.Context, k Key, id uuid.UUID) (e Entry, found bool, err error)
	// CountEntries returns the present number of entries.
	CountEntries(ctx context.Context, k Key) (int64, error)
	// CloseJoining ends joining: no entry is stored after it has returned.
	CloseJoining(ctx context.Context, k Key) error
	// List reads the ids of all entries in ascending order.
	List(ctx context.Context, k Key) (fairdraw.Entries, error)
}

// ShuffleReader reads stored shuffles.
type ShuffleReader interface {
	// Shuffle reads a shuffle consistently.
	Shuffle(ctx context.Context, k Key) (s Shuffle, found bool, err error)
	// Latest reads the shuffle of the event's latest round with a lobby.
	Latest(ctx context.Context, eventID string) (s Shuffle, found bool, err error)
	// Shuffles reads up to limit shuffles of the event's rounds before a round (0: of all rounds), the
	// latest first.
	Shuffles(ctx context.Context, eventID string, before room.Round, limit int) ([]Shuffle, error)
}

// ShuffleWriter changes a shuffle, as long as it is not final.
type ShuffleWriter interface {
	// SetStatement replaces the unsigned statement `before` (empty: there is none).
	SetStatement(ctx context.Context, k Key, before, statement string) error
	// SetSignature sets the signature of a statement, if that is the stored one.
	SetSignature(ctx context.Context, k Key, statement, signature string) error
	// SetBeaconRound stores the beacon's round, unless there is a result.
	SetBeaconRound(ctx context.Context, k Key, r beacon.Round) error
	// SetResult stores the result, if r is the stored round of the beacon (nil: none is stored).
	SetResult(ctx context.Context, k Key, seed, orderHash string, r *beacon.Round) error
	// Void ends a shuffle without a result, unless the beacon's value is stored.
	Void(ctx context.Context, k Key, at int64) error
}

// UnfinishedLobbies stores the list of unfinished lobbies. It also writes the results of lobbies to
// the counters of their rooms.
type UnfinishedLobbies interface {
	// Unfinished lists the lobbies whose shuffle is not final.
	Unfinished(ctx context.Context) ([]Key, error)
	// SetSize stores the final number of entries, and issues a position for each. It fails with
	// room.ErrStale if that was done before, or if other positions were issued or served.
	SetSize(ctx context.Context, k Key, entries int64) error
	// SetShuffled records that the lobby is shuffled, so that the serving counter may move.
	SetShuffled(ctx context.Context, k Key) error
	// RemoveUnfinished removes the lobby from the list of unfinished ones.
	RemoveUnfinished(ctx context.Context, k Key) error
}

// CounterReader reads the counters of rooms.
type CounterReader interface {
	Read(ctx context.Context, eventID string) (c room.Counters, found bool, err error)
}

// Beacons fetches rounds of randomness beacons, and verifies them.
type Beacons interface {
	// Get fails with beacon.ErrNotPublished if the round is not published yet.
	Get(ctx context.Context, chain beacon.Chain, round uint64) (beacon.Round, error)
	// Check fails with beacon.ErrChain or beacon.ErrUnchecked unless a source publishes rounds of the
	// chain at the time now.
	Check(ctx context.Context, chain beacon.Chain, now time.Time) error
}

// Schedule computes the times of lobbies. Lead is how long before the start a lobby closes.
type Schedule struct {
	Lead time.Duration
}

const (
	// DefaultLead is a minute to compute the root, a minute in which everybody can save it, and a
	// minute between the beacon's value and the start.
	DefaultLead = 3 * time.Minute
	margin      = time.Minute // the time from the beacon's round to the start
	// minDelay is the shortest time from the closing to the beacon's round, so that the root can be
	// published. minMargin is the margin with the shortest lead. Both are for development.
	minDelay  = fairdraw.RootLead + 15*time.Second
	minMargin = 5 * time.Second
	// MinLead is the shortest time from the lobby's closing to the beacon round that shuffles it, so
	// that the Merkle root of its entries can be public before that round.
	MinLead = minDelay + minMargin
)

// delaySeconds returns the time from the closing to the beacon's round.
func (s Schedule) delaySeconds() int64 {
	return int64(max(s.Lead-margin, min(s.Lead-minMargin, minDelay), time.Second) / time.Second)
}

// errNoKeys is returned to an operator who opens a lobby if the keys are not configured.
var errNoKeys = errors.New("a lobby needs DRAW_SECRET, DRAW_STATEMENT_KEYS and DRAW_RECEIPT_KEYS")
