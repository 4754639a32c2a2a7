package fairdraw

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/ids"
)

// The names of the algorithms. Every change of this package that changes a result needs a new name.
const (
	AlgorithmDraw    = "urr/draw/1"    // chooses the winners of a lottery
	AlgorithmShuffle = "urr/shuffle/1" // orders all entries of a lobby
)

// Times that are part of the algorithms.
const (
	RootLead     = time.Minute    // minimum time from publishing the Merkle root to the beacon's round
	SeedDeadline = 24 * time.Hour // from the announcement until a seed that is not revealed is replaced by zeros
	// BeaconDeadline is the time after the announcement at which a draw is cancelled if the beacon
	// has not published the draw's round.
	BeaconDeadline = 7 * 24 * time.Hour
	// ResultGrace is how late a result may be published. CopyGrace is the largest error of the time at
	// which a copy of a document was saved: caches may serve an older document, and clocks differ.
	ResultGrace = 10 * time.Minute
	CopyGrace   = 15 * time.Second
)

// Times that services use by default. Shorter times are valid, since RootLead protects the draw
// with any delay. But people then have less time to save the statement.
const (
	MinDelay         = 2 * time.Minute  // the shortest time from the cutoff to the beacon's round
	DefaultDelay     = 10 * time.Minute // the time from the cutoff to the beacon's round if an operator sets none
	AnnouncementLead = 2 * time.Minute  // the shortest time from the end of that delay to the announcement
)

// Limits that keep every number exact in JavaScript.
const (
	maxMillis  = 253402300799999 // the end of the year 9999
	maxWinners = 10_000_000
	maxDelay   = 30 * 24 * 60 * 60 // seconds
)

// Beacon is the beacon of a draw: its chain, and how long after the cutoff the deciding round is.
type Beacon struct {
	beacon.Chain
	// DelaySeconds is the least time from the cutoff to the deciding round, and from a missed round
	// to the round that decides in its place.
	DelaySeconds int64 `json:"delaySeconds"`
}

// Commitment is published when a draw opens, and fixes everything that could change the result
// later. Its canonical JSON is served verbatim; the hash of this text is part of every receipt, of
// the statement and of the key by which entries are ranked.
type Commitment struct {
	Algorithm string `json:"algorithm"`
	EventID   string `json:"eventId"`
	Winners   int    `json:"winners"` // N, at least 1; 0 for a shuffle
	// CutoffAt, in ms since 1970: requests received before it take part.
	CutoffAt int64 `json:"cutoffAt"`
	// AnnouncedAt, in ms since 1970, is when the result and the seed are published; for a shuffle the
	// start of its round.
	AnnouncedAt  int64   `json:"announcedAt"`
	ReceiptKey   Hash    `json:"receiptKey"`       // Ed25519 public key of the receipts
	StatementKey Hash    `json:"statementKey"`     // Ed25519 public key of the statement, a different one
	SeedHash     Hash    `json:"seedHash"`         // SHA-256 of the seed
	SeedKID      string  `json:"seedKid"`          // id of the operator's secret from which the seed is derived
	Beacon       *Beacon `json:"beacon,omitempty"` // absent if there is no beacon, so that people must trust the operator
	Round        uint64  `json:"round"`            // the beacon's first round at CutoffAt + DelaySeconds or later; 0 without a beacon
}

// Seal sets the round and returns the canonical JSON with its hash. It fails for invalid terms.
func (c *Commitment) Seal() (text []byte, hash Hash, err error) {
	c.Round = 0
	if c.Beacon != nil && c.Beacon.Period > 0 {
		c.Round = c.roundAfterDelays(1)
	}
	if err := c.Validate(); err != nil {
		return nil, Hash{}, err
	}
	if text, err = canonicalJSON(c); err != nil {
		return nil, Hash{}, err
	}
	return text, sha256.Sum256(text), nil
}

// ParseCommitment reads a commitment from the bytes that Seal made. It also returns their hash.
func ParseCommitment(text []byte) (Commitment, Hash, error) {
	var c Commitment
	if err := parseCanonical(text, &c); err != nil {
		return Commitment{}, Hash{}, err
	}
	if err := c.Validate(); err != nil {
		return Commitment{}, Hash{}, err
	}
	return c, sha256.Sum256(text), nil
}

func (c *Commitment) Validate() error {
	switch {
	case c.Algorithm != AlgorithmDraw && c.Algorithm != AlgorithmShuffle:
		return fmt.Errorf("fairdraw: algorithm %q is not supported", c.Algorithm)
	case !ids.ValidEventID(c.EventID):
		return errors.New("fairdraw: eventId is not an event id")
	case c.Algorithm == AlgorithmDraw && (c.Winners < 1 || c.Winners > maxWinners):
		return fmt.Errorf("fairdraw: winners must be 1–%d", maxWinners)
	case c.Algorithm == AlgorithmShuffle && c.Winners != 0:
		return errors.New("fairdraw: a shuffle has no winners")
	case c.CutoffAt < 1 || c.AnnouncedAt > maxMillis || c.AnnouncedAt < c.CutoffAt:
		return errors.New("fairdraw: cutoffAt and announcedAt must be times in ms, in this order")
	case isWeakKey(c.ReceiptKey) || isWeakKey(c.StatementKey):
		return errors.New("fairdraw: receiptKey and statementKey must be encodings of points of large order")
	case c.ReceiptKey == c.StatementKey:
		return errors.New("fairdraw: receiptKey and statementKey must differ")
	case c.SeedKID == "" || len(c.SeedKID) > 32:
		return errors.New("fairdraw: seedKid must have 1–32 characters")
	case c.Beacon == nil && c.Round != 0:
		return errors.New("fairdraw: a round without a beacon")
	case c.Beacon == nil:
		return nil
	}
	if err := c.Beacon.Validate(); err != nil {
		return err
	}
	switch delay := c.Beacon.DelaySeconds; {
	case delay < c.Beacon.Period || delay > maxDelay:
		return fmt.Errorf("fairdraw: delaySeconds must be %d–%d", c.Beacon.Period, maxDelay)
	case c.Algorithm == AlgorithmDraw && c.AnnouncedAt < c.CutoffAt+delay*1000:
		return errors.New("fairdraw: announcedAt must not be before the end of the delay")
	case c.Round != c.roundAfterDelays(1):
		return fmt.Errorf("fairdraw: the round must be %d", c.roundAfterDelays(1))
	}
	return nil
}

// isWeakKey reports whether an Ed25519 public key is a point of small order, or not the canonical
// encoding of its point. With a point of small order anybody can make valid signatures, so that the
// key's owner could deny them.
func isWeakKey(key Hash) bool {
	key[31] &= 0x7f // the sign of x
	// y is a number below 2^255-19, little-endian.
	if key[31] == 0x7f && key[0] >= 0xed && bytes.Count(key[1:31], []byte{0xff}) == 30 {
		return true
	}
	switch key.String() {
	case "0000000000000000000000000000000000000000000000000000000000000000", // order 4
		"0100000000000000000000000000000000000000000000000000000000000000", // order 1
		"26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05", // order 8
		"c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a", // order 8
		"ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f": // order 2
		return true
	}
	return false
}

func (c *Commitment) Cutoff() time.Time    { return time.UnixMilli(c.CutoffAt).UTC() }
func (c *Commitment) Announced() time.Time { return time.UnixMilli(c.AnnouncedAt).UTC() }

// roundAfterDelays returns the beacon's first round that is n delays or more after the cutoff.
func (c *Commitment) roundAfterDelays(n int64) uint64 {
	return c.Beacon.FirstAt(time.UnixMilli(c.CutoffAt + n*c.Beacon.DelaySeconds*1000))
}

// RoundFor returns the beacon's round that decides a draw whose Merkle root is fixed at a time.
// That is the committed round. If it comes less than RootLead after that time, it is the first
// round one delay later, or two delays, and so on. missed is the number of rounds that were
// skipped. Both are 0 without a beacon.
func (c *Commitment) RoundFor(at time.Time) (round uint64, missed int64) {
	if c.Beacon == nil {
		return 0, 0
	}
	public := at.Add(RootLead)
	if late := public.UnixMilli() - c.CutoffAt; late > 0 {
		// Skips most of the rounds that come too early, so that the loop below is short.
		missed = max(0, late/(c.Beacon.DelaySeconds*1000)-1)
	}
	for {
		round = c.roundAfterDelays(missed + 1)
		if !c.Beacon.TimeOf(round).Before(public) {
			return round, missed
		}
		missed++
	}
}

// ResultDueAt returns when the result of a draw must be public: at the announcement, or at the time
// of the deciding round if that is later.
func (c *Commitment) ResultDueAt(round uint64) time.Time {
	if c.Beacon != nil && c.Beacon.TimeOf(round).After(c.Announced()) {
		return c.Beacon.TimeOf(round)
	}
	return c.Announced()
}

// BeaconLostAt returns when a draw is cancelled because its beacon has not published the
// statement's round.
func (c *Commitment) BeaconLostAt(statementRound uint64) time.Time {
	return c.ResultDueAt(statementRound).Add(BeaconDeadline)
}

// ZeroSeedRound returns the round that decides a draw whose seed was not revealed: the first one
// SeedDeadline after the announcement, or after the statement's round if that is later.
func (c *Commitment) ZeroSeedRound(statementRound uint64) uint64 {
	return c.Beacon.FirstAt(c.ResultDueAt(statementRound).Add(SeedDeadline))
}
