package table

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// EntryPartition is the partition with the entries of a group, promotion.LotteryGroup.
func EntryPartition(event, group string) string { return "ENTRY#" + event + "#" + group }

// EntryItem encodes an entry.
func EntryItem(e *promotion.Entry) dynamo.Item {
	b := newItem(EntryPartition(e.EventID, promotion.LotteryGroup(e.RequestID)), e.RequestID, "ENTRY")
	b.num("enteredAt", e.EnteredAt)
	b.num(TTL, expirySeconds(e.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// entryCounterClosed is the attribute of ClosedAt, which every change of the number requires
// absent.
const entryCounterClosed = "closed"

// EntryCounterKey is the key of a group's counter.
func EntryCounterKey(event, group string) dynamo.Item { return Key(eventPK(event), "ENTRIES#"+group) }

// DecodeEntryCounter reads a counter; an absent item counts as 0 entries.
func DecodeEntryCounter(it dynamo.Item) (promotion.EntryCounter, error) {
	d := dynamo.Reader{Item: it}
	return promotion.EntryCounter{N: d.Number("n"), ClosedAt: d.Number(entryCounterClosed), SentAt: d.Number("sentAt")}, d.Err()
}

// entryCounterUpdate adds entries, and sets when the latest message was sent unless that is 0.
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

// ExclusionPartition is the partition with the excluded requests of an event.
func ExclusionPartition(event string) string { return "EXCLUDED#" + event }

// ExclusionItem encodes an exclusion.
func ExclusionItem(e *promotion.Exclusion) dynamo.Item {
	b := newItem(ExclusionPartition(e.EventID), e.RequestID, "EXCLUDED")
	b.str(exclusionReason, string(e.Reason))
	b.num(exclusionAt, e.At)
	b.num(TTL, expirySeconds(e.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// DecodeExclusion reads an exclusion. One that cannot be read is returned with promotion.ErrUnreadable
// and with what its key tells: the request.
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
