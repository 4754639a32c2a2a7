package asyncevent

import (
	"cmp"

	"urr.guru/pkg/dynamo"
)

// DeadLetters is the partition with the messages that operators must look at; AdmissionDeadLetters
// that with the admissions.
const (
	DeadLetters          = "DLQ#requests"
	AdmissionDeadLetters = "DLQ#admissions"
)

// deadLetterDays bounds how long a dead letter is kept.
const deadLetterDays = 90

// DeadLetter is a message that could not be processed.
type DeadLetter struct {
	// Partition is DeadLetters if it is empty.
	Partition string
	SK        string
	// RequestID is empty for a message that could not be read.
	RequestID, EventID string
	Body               string
	ErrorCode          string
	ErrorMessage       string
	At                 int64
	// RedrivenAt is when an operator began the request anew; 0: not.
	RedrivenAt int64
}

// NewDeadLetter makes a dead letter; id is the request's, or the message's if it could not be read.
func NewDeadLetter(id string, now int64) DeadLetter {
	return DeadLetter{SK: stamp(now) + "#" + id, At: now}
}

// Item encodes the dead letter.
func (l *DeadLetter) Item() dynamo.Item {
	b := newItem(cmp.Or(l.Partition, DeadLetters), l.SK, "DEAD_LETTER")
	b.str("requestId", l.RequestID)
	b.str("eventId", l.EventID)
	b.str("body", l.Body)
	b.str("errorCode", l.ErrorCode)
	b.str("errorMessage", shorten(l.ErrorMessage))
	b.num("at", l.At)
	b.num("redrivenAt", l.RedrivenAt)
	b.num(TTL, expiry(l.At, deadLetterDays))
	return dynamo.Item(b)
}

// DecodeDeadLetter reads a dead letter.
func DecodeDeadLetter(it dynamo.Item) (DeadLetter, error) {
	d := dynamo.Reader{Item: it}
	l := DeadLetter{
		Partition: d.String(PK), SK: d.String(SK), RequestID: d.String("requestId"), EventID: d.String("eventId"), Body: d.String("body"),
		ErrorCode: d.String("errorCode"), ErrorMessage: d.String("errorMessage"), At: d.Number("at"), RedrivenAt: d.Number("redrivenAt"),
	}
	return l, d.Err()
}

// RedrivenKey is the key of the note that a dead letter of a Kafka topic was redriven. It never
// expires, since dead letters do not.
func RedrivenKey(topic, id string) dynamo.Item { return Key("DLQ#"+topic, id) }

// RedrivenItem notes when a dead letter of a Kafka topic was redriven.
func RedrivenItem(topic, id string, at int64) dynamo.Item {
	b := newItem("DLQ#"+topic, id, "REDRIVEN")
	b.num("redrivenAt", at)
	return dynamo.Item(b)
}

// DecodeRedriven reads the time of such a note, 0 without one.
func DecodeRedriven(it dynamo.Item) (at int64, err error) {
	d := dynamo.Reader{Item: it}
	return d.Number("redrivenAt"), d.Err()
}
