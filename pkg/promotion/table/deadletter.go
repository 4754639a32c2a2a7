package table

import (
	"cmp"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// deadLetterDays bounds how long a dead letter is kept.
const deadLetterDays = 90

// DeadLetterKey is the key of a dead letter of a queue.
func DeadLetterKey(queue, id string) dynamo.Item { return Key(DeadLetterPartition(queue), id) }

// DeadLetterPartition is the partition with the dead letters of a queue.
func DeadLetterPartition(queue string) string { return deadLetterPrefix + queue }

const deadLetterPrefix = "DLQ#"

// DeadLetterItem encodes a dead letter.
func DeadLetterItem(l *promotion.DeadLetter) dynamo.Item {
	b := newItem(DeadLetterPartition(cmp.Or(l.Queue, promotion.DeadLetters)), l.ID, "DEAD_LETTER")
	b.str("requestId", l.RequestID)
	b.str("eventId", l.EventID)
	b.str("body", l.Body)
	b.str("errorCode", l.ErrorCode)
	b.str("errorMessage", promotion.Shorten(l.ErrorMessage))
	b.num("at", l.At)
	b.num("redrivenAt", l.RedrivenAt)
	b.num(TTL, expirySeconds(l.At, deadLetterDays))
	return dynamo.Item(b)
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
