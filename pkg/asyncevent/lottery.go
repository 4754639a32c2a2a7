package asyncevent

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
)

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

// LotteryGroups are the names of all groups.
func LotteryGroups() []string {
	out := make([]string, lotteryGroups)
	for i := range out {
		out[i] = groupName(uint32(i)) //nolint:gosec // below 64
	}
	return out
}

// EntryCounter counts the entries of a group. There is none before the first entry.
type EntryCounter struct {
	N int64
	// ClosedAt is when the draw ended the taking of entries; 0: it is open.
	ClosedAt int64
	// SentAt is when the queue got the latest message of the group that was settled, by its clock:
	// messages of the group sent before it have been settled, or are lost.
	SentAt int64
}

// entryCounterClosed is the attribute of ClosedAt, which every change of the number requires
// absent.
const entryCounterClosed = "closed"

// EntryCounterKey is the key of a group's counter.
func EntryCounterKey(event, group string) dynamo.Item { return Key(eventPK(event), "ENTRIES#"+group) }

// DecodeEntryCounter reads a counter; an absent item is a counter of nothing.
func DecodeEntryCounter(it dynamo.Item) (EntryCounter, error) {
	d := dynamo.Reader{Item: it}
	return EntryCounter{N: d.Number("n"), ClosedAt: d.Number(entryCounterClosed), SentAt: d.Number("sentAt")}, d.Err()
}

// entryCounterUpdate adds entries and notes when the latest message was sent; 0 leaves that as it
// is.
func entryCounterUpdate(n, sentAt int64) dynamo.Change {
	u := dynamo.Change{
		Expression: "SET #type = :type", Names: map[string]string{"#type": "entityType"}, Values: dynamo.Item{":type": dynamo.String("ENTRIES")},
	}
	if sentAt != 0 {
		u.Expression += ", sentAt = :sentAt"
		u.Values[":sentAt"] = dynamo.Number(sentAt)
	}
	if n != 0 {
		u.Expression += " ADD n :n"
		u.Values[":n"] = dynamo.Number(n)
	}
	return u
}

// CloseEntryCounter ends the taking of entries by a group at a time; the first time stays.
func CloseEntryCounter(now int64) dynamo.Change {
	return dynamo.Change{
		Expression: "SET #type = :type, #closed = if_not_exists(#closed, :now)",
		Names:      map[string]string{"#type": "entityType", "#closed": entryCounterClosed},
		Values:     dynamo.Item{":type": dynamo.String("ENTRIES"), ":now": dynamo.Number(now)},
	}
}

// entryCounterOpen holds while a group takes entries.
func entryCounterOpen() Condition {
	return Condition{Expression: "attribute_not_exists(#closed)", Names: map[string]string{"#closed": entryCounterClosed}}
}

// DecodeEntry reads the id of an entry.
func DecodeEntry(it dynamo.Item) (id string, err error) {
	d := dynamo.Reader{Item: it}
	return d.String(SK), d.Err()
}

// Excluded is a lottery request that ended without an entry; a redrive deletes it. From phase
// CLOSED on exclusions are neither written nor deleted, so that they stay as they were signed; only
// one that cannot be read is mended before the statement (Store.MendExcluded).
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
	b.str(excludedReason, string(e.Reason))
	b.num(excludedAt, e.At)
	b.num(TTL, expiry(e.EndsAt, requestDays))
	return dynamo.Item(b)
}

// DecodeExcluded reads an exclusion. One that cannot be read is returned with ErrUnreadable and
// with what its key tells: the request.
func DecodeExcluded(it dynamo.Item) (Excluded, error) {
	d := dynamo.Reader{Item: it}
	e := Excluded{EventID: strings.TrimPrefix(d.String(PK), "EXCLUDED#"), RequestID: d.String(SK)}
	e.Reason, e.At = ResultCode(d.String(excludedReason)), d.Number(excludedAt)
	if err := d.Err(); err != nil || e.Reason == "" {
		e.Reason, e.At = "", 0
		return e, fmt.Errorf("exclusion %s of %s: %w: %w", e.RequestID, e.EventID, ErrUnreadable, cmp.Or(err, errors.New("the reason is missing")))
	}
	return e, nil
}

// Attributes of an exclusion.
const (
	excludedReason = "reason"
	excludedAt     = "at"
)
