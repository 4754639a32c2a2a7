package asyncevent

import (
	"fmt"

	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/fairdraw/beacon"
)

// DrawPhase is how far a draw is.
//
//	OPEN ──▶ CLOSED ──▶ ROOT ──▶ DRAWN ──▶ SETTLED
//	  └─────────┴─────────┴────────┴──▶ VOID
//
// An operator makes it VOID before the round, or when a lost key leaves no other end (VoidReason).
// It only moves on, except that a draw whose seed was not revealed in time goes back from DRAWN to
// ROOT and is decided anew. Nothing of the first decision was public.
type DrawPhase string

// The phases.
const (
	// DrawOpen is a draw without an item.
	DrawOpen DrawPhase = "OPEN"
	// DrawClosed: entries and exclusions stay as they are.
	DrawClosed DrawPhase = "CLOSED"
	// DrawRoot: the signed statement is public.
	DrawRoot DrawPhase = "ROOT"
	// DrawDrawn: the winners are stored. They are public once the seed is stored, at the announcement.
	DrawDrawn DrawPhase = "DRAWN"
	// DrawSettled: every request has its result.
	DrawSettled DrawPhase = "SETTLED"
	// DrawVoid: there will be no result.
	DrawVoid DrawPhase = "VOID"
)

// VoidReason says why a draw was cancelled when it no longer may be, since the result could be
// known.
type VoidReason string

// The reasons: the keys without which the draw cannot go on.
const (
	SigningKeyLost VoidReason = "SIGNING_KEY_LOST"
	SeedKeyLost    VoidReason = "SEED_KEY_LOST"
)

// Draw is the state of a lottery's draw. Every change requires the phase, statement, signature,
// value and seed as they were read. Times are epoch milliseconds.
type Draw struct {
	EventID string
	Phase   DrawPhase

	// ClosedAt is when the list of the entries was final.
	ClosedAt int64
	// Statement is the canonical text (fairdraw.Statement). It is stored before it is signed, so that
	// there is one signed statement; it is public from the phase ROOT on, with its signature.
	Statement, Signature string
	RootAt               int64
	// Beacon is the round that decides; nil: not known, or the draw has no beacon.
	Beacon *beacon.Round
	// ZeroSeed means that zeros are the seed, since the operator's was not revealed in time.
	ZeroSeed bool
	// WinnersCount is the number of winners that are stored, under WinnersKey.
	WinnersCount int64
	DrawnAt      int64
	// Seed is stored at the announcement, not earlier: the result is public from then on.
	Seed        string
	AnnouncedAt int64 // when the seed was stored
	SettledAt   int64 // when the last request had its result, also of a void draw
	VoidedAt    int64
	VoidReason  VoidReason // empty: cancelled in time
}

// DrawKey is the key of the draw of an event.
func DrawKey(event string) dynamo.Item { return Key(eventPK(event), "DRAW") }

// Item encodes the draw; like the promotion it never expires.
func (d *Draw) Item() dynamo.Item {
	b := newItem(eventPK(d.EventID), "DRAW", "DRAW")
	b.str("eventId", d.EventID)
	b.str("phase", string(d.Phase))
	b.num("closedAt", d.ClosedAt)
	b.str("statement", d.Statement)
	b.str("signature", d.Signature)
	b.num("rootAt", d.RootAt)
	if d.Beacon != nil {
		b.num("beaconRound", int64(d.Beacon.Round)) //nolint:gosec // a round follows from a time
		b.str("beaconValue", d.Beacon.Randomness)
		b.str("beaconSignature", d.Beacon.Signature)
	}
	b.flag("zeroSeed", d.ZeroSeed)
	b.num("winnersCount", d.WinnersCount)
	b.num("drawnAt", d.DrawnAt)
	b.str("seed", d.Seed)
	b.num("announcedAt", d.AnnouncedAt)
	b.num("settledAt", d.SettledAt)
	b.num("voidedAt", d.VoidedAt)
	b.str("voidReason", string(d.VoidReason))
	return dynamo.Item(b)
}

// DecodeDraw reads the draw of an event; without an item it is open.
func DecodeDraw(event string, it dynamo.Item) (Draw, error) {
	d := dynamo.Reader{Item: it}
	out := Draw{
		EventID: event, Phase: DrawPhase(d.String("phase")), ClosedAt: d.Number("closedAt"),
		Statement: d.String("statement"), Signature: d.String("signature"), RootAt: d.Number("rootAt"),
		ZeroSeed: d.Bool("zeroSeed"), WinnersCount: d.Number("winnersCount"), DrawnAt: d.Number("drawnAt"),
		Seed: d.String("seed"), AnnouncedAt: d.Number("announcedAt"), SettledAt: d.Number("settledAt"), VoidedAt: d.Number("voidedAt"),
		VoidReason: VoidReason(d.String("voidReason")),
	}
	if round := d.Number("beaconRound"); round > 0 {
		out.Beacon = &beacon.Round{Round: uint64(round), Randomness: d.String("beaconValue"), Signature: d.String("beaconSignature")}
	}
	if out.Phase == "" {
		out.Phase = DrawOpen
	}
	if err := d.Err(); err != nil {
		return out, fmt.Errorf("draw of %s: %w", event, err)
	}
	return out, nil
}

// AsRead is the condition that the draw is as it was read. Whatever writes a draw changes one of
// the attributes that it names.
func (d *Draw) AsRead() Condition {
	if d.Phase == DrawOpen {
		return Absent()
	}
	c := Condition{
		Expression: "#readPhase = :readPhase", Names: map[string]string{"#readPhase": "phase"},
		Values: dynamo.Item{":readPhase": dynamo.String(string(d.Phase))},
	}
	stored := d.Item()
	for i, name := range []string{"statement", "signature", "beaconSignature", "zeroSeed", "seed", "settledAt"} {
		at := fmt.Sprintf("#read%d", i)
		c.Names[at] = name
		if v, ok := stored[name]; ok {
			value := fmt.Sprintf(":read%d", i)
			c.Values[value] = v
			c.Expression += " AND " + at + " = " + value
		} else {
			c.Expression += " AND attribute_not_exists(" + at + ")"
		}
	}
	return c
}

// Deciding is the round that decides, once the statement is public; 0 without a beacon.
func (d *Draw) Deciding(terms *fairdraw.Commitment) (uint64, error) {
	s, err := fairdraw.ParseStatement([]byte(d.Statement))
	if err != nil || terms.Beacon == nil {
		return 0, err
	}
	if d.ZeroSeed {
		return terms.ZeroSeedRound(s.Round), nil
	}
	return s.Round, nil
}

// Public reports whether the signed statement, and so the lists of entries and exclusions, are
// public.
func (d *Draw) Public() bool { return d.Signature != "" }

// Announced reports whether the result is public. The seed is stored at the announcement, by one
// process, so that all readers agree.
func (d *Draw) Announced() bool { return d.Seed != "" }

// Document is what everybody may know of the draw. The caller adds the exclusions if it is Public,
// and the winners if it is Announced.
func (d *Draw) Document(p *Promotion) (fairdraw.Document, error) {
	_, hash, err := fairdraw.ParseCommitment([]byte(p.Commitment))
	if err != nil {
		return fairdraw.Document{}, fmt.Errorf("draw of %s: %w", d.EventID, err)
	}
	out := fairdraw.Document{
		EventID: d.EventID, Phase: fairdraw.Phase(d.Phase), Commitment: p.Commitment, CommitmentHash: hash.String(),
		Seed: d.Seed, VoidedAt: d.VoidedAt,
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

// winnersPerItem keeps an item below DynamoDB's 400 KB: 16 bytes per winner.
const winnersPerItem = 20_000

// WinnersKey is the key of the i-th item with winners. It contains the round that decided, so that
// a draw that is decided anew does not share items with the first decision.
func WinnersKey(event string, round uint64, i int) dynamo.Item {
	return Key(eventPK(event), fmt.Sprintf("WINNERS#%d#%04d", round, i))
}

// WinnersItems encodes the winners, the first rank first.
func (d *Draw) WinnersItems(winners []uuid.UUID, endsAt int64) []dynamo.Item {
	var out []dynamo.Item
	for i := 0; i < len(winners); i += winnersPerItem {
		var ids []byte
		for _, id := range winners[i:min(i+winnersPerItem, len(winners))] {
			ids = append(ids, id[:]...)
		}
		it := WinnersKey(d.EventID, d.round(), i/winnersPerItem)
		it["entityType"] = dynamo.String("WINNERS")
		it["ids"] = dynamo.Binary(ids)
		it[TTL] = dynamo.Number(expiry(endsAt, requestDays))
		out = append(out, it)
	}
	return out
}

// WinnersKeys are the keys of the items with the winners of a draw, in the order of the ranks.
func (d *Draw) WinnersKeys() []dynamo.Item {
	var out []dynamo.Item
	for i := int64(0); i < d.WinnersCount; i += winnersPerItem {
		out = append(out, WinnersKey(d.EventID, d.round(), len(out)))
	}
	return out
}

func (d *Draw) round() uint64 {
	if d.Beacon == nil {
		return 0
	}
	return d.Beacon.Round
}

// DecodeWinners reads an item with winners.
func DecodeWinners(it dynamo.Item) ([]uuid.UUID, error) {
	d := dynamo.Reader{Item: it}
	ids := d.Binary("ids")
	out := make([]uuid.UUID, 0, len(ids)/len(uuid.UUID{}))
	for len(ids) >= len(uuid.UUID{}) {
		out = append(out, uuid.UUID(ids))
		ids = ids[len(uuid.UUID{}):]
	}
	return out, d.Err()
}

// OpenDraws is the partition that lists the lotteries whose draw is not settled; ingest adds one
// with the promotion, worker deletes it.
const OpenDraws = "DRAWS"

// OpenDrawKey is the key of a lottery's entry in the list.
func OpenDrawKey(event string) dynamo.Item { return Key(OpenDraws, ListSK(event)) }

// OpenDrawItem is a lottery's entry in the list; ListedEvent reads it.
func OpenDrawItem(event string) dynamo.Item {
	it := OpenDrawKey(event)
	it["entityType"] = dynamo.String("OPEN_DRAW")
	return it
}
