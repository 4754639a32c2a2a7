package table

import (
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// WinnerPartition is the partition with the successful requests to a first-come promotion, in the
// order of the queue.
func WinnerPartition(event string) string { return "WINNER#" + event }

// WinnerItem is the place of a successful request in that order. It is written by its settlement.
func WinnerItem(r *promotion.Request) dynamo.Item {
	b := newItem(WinnerPartition(r.EventID), r.QueueSeq+"#"+r.RequestID, "WINNER")
	b.str("userId", r.UserID)
	b.num(TTL, expirySeconds(r.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// DecodeWinner reads the request and its user. With an error the request is known all the same.
func DecodeWinner(it dynamo.Item) (requestID, userID string, err error) {
	d := dynamo.Reader{Item: it}
	_, requestID, _ = strings.Cut(d.String(SK), "#")
	return requestID, d.String("userId"), d.Err()
}
