package table

import (
	"encoding/json"
	"fmt"
	"strconv"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// Winner is a successful first-come request.
type Winner struct {
	RequestID string `json:"requestId"`
	UserID    string `json:"userId"`
}

// winnerPartition is the key of the partition with the successful requests to a first-come
// promotion. Each item has the requests of one transaction, in the order of their places, which
// have no gaps.
func winnerPartition(event string) string { return "WINNER#" + event }

// WinnersItem encodes the winners of one transaction, which all are of one promotion.
func WinnersItem(won []promotion.Request) dynamo.Item {
	first := &won[0]
	b := newItem(winnerPartition(first.EventID), sortablePlace(first.Place), "WINNERS_FIRST_COME")
	rows := make([]Winner, len(won))
	for i, r := range won {
		rows[i] = Winner{r.RequestID, r.UserID}
	}
	text, _ := json.Marshal(rows) // strings always marshal
	b.setString("winners", string(text))
	b.setNonZero("n", int64(len(won)))
	b.setNonZero(TTL, expirySeconds(first.EndsAt, promotion.RetentionDays))
	return dynamo.Item(b)
}

// DecodeFirstCome reads the winners of an item, and the place of the first one. With an error it
// returns empty winners, as many as the item says.
func DecodeFirstCome(it dynamo.Item) (winners []Winner, first int64, err error) {
	d := dynamo.Reader{Item: it}
	if first, err = strconv.ParseInt(d.String(SK), 10, 64); err == nil {
		err = json.Unmarshal([]byte(d.String("winners")), &winners)
	}
	if n := d.Number("n"); err != nil || d.Err() != nil {
		return make([]Winner, max(0, min(n, dynamo.MaxTransaction))), first, fmt.Errorf("winners from place %d on: %w: %w", first, promotion.ErrUnreadable, err)
	}
	return winners, first, nil
}

// WinnersBehind is the query of the items with the winners after a place. Its first items may have
// earlier winners too: an item has at most as many as a transaction has writes.
func WinnersBehind(event string, place int64) PartitionQuery {
	q := PartitionQuery{PK: winnerPartition(event), Limit: 2 * dynamo.MaxTransaction}
	if from := place - dynamo.MaxTransaction; from > 0 {
		q.After = sortablePlace(from)
	}
	return q
}

func sortablePlace(place int64) string { return fmt.Sprintf("%010d", place) }
