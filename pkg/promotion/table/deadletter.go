package table

import (
	"cmp"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// deadLetterDays is how many days a dead letter is kept.
const deadLetterDays = 90

// DeadLetterKey is the key of the dead letter that has this id in a queue.
func DeadLetterKey(queue, id string) dynamo.Item { return Key(DeadLetterPartition(queue), id) }

// DeadLetterPartition is the key of the partition with the dead letters of a queue.
func DeadLetterPartition(queue string) string { return deadLetterPrefix + queue }

const deadLetterPrefix = "DLQ#"

// DeadLetterItem encodes a dead letter.
func DeadLetterItem(l *promotion.DeadLetter) dynamo.Item {
	b := newItem(DeadLetterPartition(cmp.Or(l.Queue, promotion.DeadLetters)), l.ID, "DEAD_LETTER")
	b.setString("requestId", l.RequestID)
	b.setString("eventId", l.EventID)
	b.setString("body", l.Body)
	b.setString("errorCode", l.ErrorCode)
	b.setString("errorMessage", promotion.Shorten(l.ErrorMessage))
	b.setNonZero("at", l.At)
	b.setNonZero("redrivenAt", l.RedrivenAt)
	b.setNonZero(TTL, expirySeconds(l.At, deadLetterDays))
	return dynamo.Item(b)
}

// NotRedriven is the condition that a dead letter exists and was not redriven.
func NotRedriven() Condition {
	c := Present()
	c.Expression += " AND attribute_not_exists(redrivenAt)"
	return c
}

// DecodeDeadLetter reads a dead letter.
func DecodeDeadLetter(it dynamo.Item) (promotion.DeadLetter, error) {
	d := dynamo.Reader{Item: it}
	l := promotion.DeadLetter{
		Queue: strings.TrimPrefix(d.String(PK), deadLetterPrefix), ID: d.String(SK), RequestID: d.String("requestId"), EventID: d.String("eventId"), Body: d.String("body"),
		ErrorCode: d.String("errorCode"), ErrorMessage: d.String("errorMessage"), At: d.Number("at"), RedrivenAt: d.Number("redrivenAt"),
	}
	return l, d.Err()
}
