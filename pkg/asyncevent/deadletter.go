package asyncevent

import "urr.guru/pkg/dynamo"

// DeadLetters is the partition with the messages that operators must look at.
const DeadLetters = "DLQ#requests"

// deadLetterDays bounds how long a dead letter is kept.
const deadLetterDays = 90

// DeadLetter is a message that could not be processed.
type DeadLetter struct {
	SK string
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
	b := newItem(DeadLetters, l.SK, "DEAD_LETTER")
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
		SK: d.String(SK), RequestID: d.String("requestId"), EventID: d.String("eventId"), Body: d.String("body"),
		ErrorCode: d.String("errorCode"), ErrorMessage: d.String("errorMessage"), At: d.Number("at"), RedrivenAt: d.Number("redrivenAt"),
	}
	return l, d.Err()
}
