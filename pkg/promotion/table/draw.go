package table

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/pkg/promotion"
)

// DrawKey is the key of the draw of an event.
func DrawKey(event string) dynamo.Item { return Key(eventPK(event), "DRAW") }

// DrawItem encodes a draw. The item never expires, like that of the promotion.
func DrawItem(d *promotion.Draw) dynamo.Item {
	b := newItem(eventPK(d.EventID), "DRAW", "DRAW")
	b.setString("eventId", d.EventID)
	b.setString("phase", string(d.Phase))
	b.setNonZero("closedAt", d.ClosedAt)
	b.setString("statement", d.Statement)
	b.setString("signature", d.Signature)
	b.setNonZero("rootAt", d.RootAt)
	if d.Beacon != nil {
		b.setNonZero("beaconRound", int64(d.Beacon.Round)) //nolint:gosec // a round follows from a time
		b.setString("beaconValue", d.Beacon.Randomness)
		b.setString("beaconSignature", d.Beacon.Signature)
	}
	b.setIfTrue("zeroSeed", d.ZeroSeed)
	b.setNonZero("winnersCount", d.WinnersCount)
	b.setNonZero("drawnAt", d.DrawnAt)
	b.setString("seed", d.Seed)
	b.setNonZero("announcedAt", d.AnnouncedAt)
	b.setNonZero("settledAt", d.SettledAt)
	b.setNonZero("voidedAt", d.VoidedAt)
	b.setString("voidReason", string(d.VoidReason))
	b.setNonZero("dueAt", d.DueAt)
	return dynamo.Item(b)
}

// DecodeDraw reads the draw of an event. If the item is absent the draw is open.
func DecodeDraw(event string, it dynamo.Item) (promotion.Draw, error) {
	d := dynamo.Reader{Item: it}
	out := promotion.Draw{
		EventID: event, Phase: promotion.DrawPhase(d.String("phase")), ClosedAt: d.Number("closedAt"),
		Statement: d.String("statement"), Signature: d.String("signature"), RootAt: d.Number("rootAt"),
		ZeroSeed: d.Bool("zeroSeed"), WinnersCount: d.Number("winnersCount"), DrawnAt: d.Number("drawnAt"),
		Seed: d.String("seed"), AnnouncedAt: d.Number("announcedAt"), SettledAt: d.Number("settledAt"), VoidedAt: d.Number("voidedAt"),
		VoidReason: promotion.VoidReason(d.String("voidReason")), DueAt: d.Number("dueAt"),
	}
	if round := d.Number("beaconRound"); round > 0 {
		out.Beacon = &beacon.Round{Round: uint64(round), Randomness: d.String("beaconValue"), Signature: d.String("beaconSignature")}
	}
	if out.Phase == "" {
		out.Phase = promotion.DrawOpen
	}
	if err := d.Err(); err != nil {
		return out, fmt.Errorf("draw of %s: %w", event, err)
	}
	return out, nil
}

// DrawUnchanged is the condition that the stored draw has not changed since d was read. Each write
// of a draw changes at least one of the attributes in the condition.
func DrawUnchanged(d *promotion.Draw) Condition {
	if d.Phase == promotion.DrawOpen {
		return Absent()
	}
	c := Condition{
		Expression: "#readPhase = :readPhase", Names: map[string]string{"#readPhase": "phase"},
		Values: dynamo.Item{":readPhase": dynamo.String(string(d.Phase))},
	}
	stored := DrawItem(d)
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

// winnersPerItem is the most winners in an item: of 16 bytes each, to stay below DynamoDB's 400 KB.
const winnersPerItem = 20_000

// WinnersKey is the key of the i-th item with winners. It contains the beacon's round that decided,
// so that a draw that is decided again does not mix the winners of both decisions.
func WinnersKey(event string, round uint64, i int) dynamo.Item {
	return Key(eventPK(event), fmt.Sprintf("WINNERS#%d#%04d", round, i))
}

// WinnersItems encodes the winners of a draw, which are given in the order of their ranks.
func WinnersItems(d *promotion.Draw, winners []uuid.UUID, endsAt int64) []dynamo.Item {
	var out []dynamo.Item
	for i := 0; i < len(winners); i += winnersPerItem {
		var ids []byte
		for _, id := range winners[i:min(i+winnersPerItem, len(winners))] {
			ids = append(ids, id[:]...)
		}
		it := WinnersKey(d.EventID, roundOf(d), i/winnersPerItem)
		it["entityType"] = dynamo.String("WINNERS")
		it["ids"] = dynamo.Binary(ids)
		it[TTL] = dynamo.Number(expirySeconds(endsAt, promotion.RetentionDays))
		out = append(out, it)
	}
	return out
}

// WinnersKeys returns the keys of all items with the winners of a draw, in the order of the ranks.
func WinnersKeys(d *promotion.Draw) []dynamo.Item {
	var out []dynamo.Item
	for i := int64(0); i < d.WinnersCount; i += winnersPerItem {
		out = append(out, WinnersKey(d.EventID, roundOf(d), len(out)))
	}
	return out
}

func roundOf(d *promotion.Draw) uint64 {
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

// OpenDraws is the partition that lists the lotteries whose draw is not settled, in the order in
// which their next steps are due. The ingest service adds a lottery when it creates the promotion;
// each write of the draw moves or removes it.
const OpenDraws = "DRAWS"

// OpenDrawKey is the key, in OpenDraws, of a lottery whose next step is due at a time; 0: at once.
func OpenDrawKey(event string, dueAt int64) dynamo.Item {
	return Key(OpenDraws, sortableTime(dueAt)+"#"+event)
}

// OpenDrawsBefore is the sort key in OpenDraws below which are the lotteries due before a time.
func OpenDrawsBefore(ms int64) string { return sortableTime(ms) }

// OpenDrawItem is the item that lists a lottery in OpenDraws.
func OpenDrawItem(event string, dueAt int64) dynamo.Item {
	it := OpenDrawKey(event, dueAt)
	it["entityType"] = dynamo.String("OPEN_DRAW")
	return it
}

// DecodeOpenDraw reads an item of OpenDraws: the event, and when its next step is due (0: at once).
func DecodeOpenDraw(it dynamo.Item) (event string, dueAt int64) {
	at, event, _ := strings.Cut(SortKey(it), "#")
	dueAt, _ = strconv.ParseInt(at, 10, 64) // 0: at once
	return event, dueAt
}
