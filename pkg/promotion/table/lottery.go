package table

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// EntryPartition is the key of the partition with the entries of a lottery's group
// (promotion.LotteryGroup).
func EntryPartition(event, group string) string { return "ENTRY#" + event + "#" + group }

// EntryItem encodes an entry.
func EntryItem(e *promotion.Entry) dynamo.Item {
	b := newItem(EntryPartition(e.EventID, promotion.LotteryGroup(e.RequestID)), e.RequestID, "ENTRY")
	b.setNonZero("enteredAt", e.EnteredAt)
	b.setNonZero(TTL, expirySeconds(e.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// entryCounterClosed is the attribute for EntryCounter.ClosedAt. Once it is set the counter no
// longer changes.
const entryCounterClosed = "closed"

// EntryCounterKey is the key of a group's counter. Each has a partition of its own, since every
// transaction with entries of the group writes it.
func EntryCounterKey(event, group string) dynamo.Item {
	return Key("ENTRIES#"+event+"#"+group, "ENTRIES")
}

// DecodeEntryCounter reads the counter of a group; if the item is absent there are 0 entries.
func DecodeEntryCounter(it dynamo.Item) (promotion.EntryCounter, error) {
	d := dynamo.Reader{Item: it}
	return promotion.EntryCounter{N: d.Number("n"), ClosedAt: d.Number(entryCounterClosed), SentAt: d.Number("sentAt")}, d.Err()
}

// entryCounterUpdate makes the update that adds n entries to a counter and, unless sentAt is 0,
// sets when the latest message that workers have processed was sent.
func entryCounterUpdate(added, sentAt int64) dynamo.Change {
	u := dynamo.Change{
		Expression: "SET #type = :type", Names: map[string]string{"#type": "entityType"}, Values: dynamo.Item{":type": dynamo.String("ENTRIES")},
	}
	if sentAt != 0 {
		u.Expression += ", sentAt = :sentAt"
		u.Values[":sentAt"] = dynamo.Number(sentAt)
	}
	if added != 0 {
		u.Expression += " ADD n :n"
		u.Values[":n"] = dynamo.Number(added)
	}
	return u
}

// CloseEntryCounter makes the update that closes a group for entries. A closed one keeps its time.
func CloseEntryCounter(now int64) dynamo.Change {
	return dynamo.Change{
		Expression: "SET #type = :type, #closed = if_not_exists(#closed, :now)",
		Names:      map[string]string{"#type": "entityType", "#closed": entryCounterClosed},
		Values:     dynamo.Item{":type": dynamo.String("ENTRIES"), ":now": dynamo.Number(now)},
	}
}

// entryCounterOpen is the condition that a group still accepts entries.
func entryCounterOpen() Condition {
	return Condition{Expression: "attribute_not_exists(#closed)", Names: map[string]string{"#closed": entryCounterClosed}}
}

// DecodeEntry reads the request id of an entry.
func DecodeEntry(it dynamo.Item) (id string, err error) {
	d := dynamo.Reader{Item: it}
	return d.String(SK), d.Err()
}

// ExclusionPartition is the key of the partition with the excluded requests of a lottery.
func ExclusionPartition(event string) string { return "EXCLUDED#" + event }

// ExclusionItem encodes an exclusion.
func ExclusionItem(e *promotion.Exclusion) dynamo.Item {
	b := newItem(ExclusionPartition(e.EventID), e.RequestID, "EXCLUDED")
	b.setString(exclusionReason, string(e.Reason))
	b.setNonZero(exclusionAt, e.At)
	b.setNonZero(TTL, expirySeconds(e.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// DecodeExclusion reads an exclusion. If it cannot be read, the error is promotion.ErrUnreadable,
// and the result has only the event and the request, from the key.
func DecodeExclusion(it dynamo.Item) (promotion.Exclusion, error) {
	d := dynamo.Reader{Item: it}
	e := promotion.Exclusion{EventID: strings.TrimPrefix(d.String(PK), "EXCLUDED#"), RequestID: d.String(SK)}
	e.Reason, e.At = promotion.ResultCode(d.String(exclusionReason)), d.Number(exclusionAt)
	if err := d.Err(); err != nil || e.Reason == "" {
		e.Reason, e.At = "", 0
		return e, fmt.Errorf("exclusion %s of %s: %w: %w", e.RequestID, e.EventID, promotion.ErrUnreadable, cmp.Or(err, errors.New("the reason is missing")))
	}
	return e, nil
}

// Attributes of an exclusion.
const (
	exclusionReason = "reason"
	exclusionAt     = "at"
)
