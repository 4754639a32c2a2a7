package table

import (
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// WinnerPartition is the key of the partition with the successful requests to a first-come
// promotion, in the order of the queue.
func WinnerPartition(event string) string { return "WINNER#" + event }

// WinnerItem encodes the item of a successful first-come request, which the settlement writes.
func WinnerItem(r *promotion.Request) dynamo.Item {
	b := newItem(WinnerPartition(r.EventID), r.QueueSeq+"#"+r.RequestID, "WINNER")
	b.setString("userId", r.UserID)
	b.setNonZero(TTL, expirySeconds(r.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// DecodeWinner reads the request and its user. requestID is set even with an error.
func DecodeWinner(it dynamo.Item) (requestID, userID string, err error) {
	d := dynamo.Reader{Item: it}
	_, requestID, _ = strings.Cut(d.String(SK), "#")
	return requestID, d.String("userId"), d.Err()
}
