package asyncevent

import "urr.guru/pkg/dynamo"

// Entry is a lottery request that takes part in the draw.
type Entry struct {
	EventID, RequestID string
	EnteredAt, EndsAt  int64
}

// EntryPartition is the partition with the entries of a group, LotteryGroup.
func EntryPartition(event, group string) string { return "ENTRY#" + event + "#" + group }

// Item encodes the entry.
func (e *Entry) Item() dynamo.Item {
	b := newItem(EntryPartition(e.EventID, LotteryGroup(e.RequestID)), e.RequestID, "ENTRY")
	b.num("enteredAt", e.EnteredAt)
	b.num(TTL, expiry(e.EndsAt, requestDays))
	return dynamo.Item(b)
}

// EntryCounterKey is the key of a group's counter: attribute n counts its entries, closed ends them.
func EntryCounterKey(event, group string) dynamo.Item { return Key(eventPK(event), "ENTRIES#"+group) }

// Excluded is a lottery request that ended without an entry; a redrive deletes it.
type Excluded struct {
	EventID, RequestID string
	Reason             ResultCode
	At, EndsAt         int64
}

// ExcludedPartition is the partition with the excluded requests of an event.
func ExcludedPartition(event string) string { return "EXCLUDED#" + event }

// Item encodes the exclusion.
func (e *Excluded) Item() dynamo.Item {
	b := newItem(ExcludedPartition(e.EventID), e.RequestID, "EXCLUDED")
	b.str("reason", string(e.Reason))
	b.num("at", e.At)
	b.num(TTL, expiry(e.EndsAt, requestDays))
	return dynamo.Item(b)
}

// DrawPhase is how far a draw is; it only moves on.
type DrawPhase string

// The phases. OPEN is a draw without an item.
const (
	DrawOpen    DrawPhase = "OPEN"
	DrawClosed  DrawPhase = "CLOSED"
	DrawRoot    DrawPhase = "ROOT"
	DrawDrawn   DrawPhase = "DRAWN"
	DrawSettled DrawPhase = "SETTLED"
	DrawVoid    DrawPhase = "VOID"
)

// DrawKey is the key of the draw of an event.
func DrawKey(event string) dynamo.Item { return Key(eventPK(event), "DRAW") }
