package table

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// countShards is the number of items over which the counts of an event are spread, so that
// transactions rarely write the same item.
const countShards = 16

// CountsPrefix begins the sort keys of the items with an event's counts.
const CountsPrefix = "COUNTS#"

// CountsKey is the key of one of the items with an event's counts. Any shard will do.
func CountsKey(event string, shard uint32) dynamo.Item {
	return Key(EventPartition(event), fmt.Sprintf("%s%x", CountsPrefix, shard%countShards))
}

// EventPartition is the key of the partition with the promotion, capacity and counts of an event.
func EventPartition(event string) string { return eventPK(event) }

const (
	acceptedAttr = "accepted"
	enteredAttr  = "entered"
	resultPrefix = "result_"
)

// CountsUpdate makes the update that adds c to a stored item of counts.
func CountsUpdate(c *promotion.Counts) dynamo.Change {
	u := dynamo.Change{Names: map[string]string{"#type": "entityType"}, Values: dynamo.Item{":type": dynamo.String("COUNTS")}}
	var adds []string
	add := func(name string, n int64) {
		if n == 0 {
			return
		}
		i := len(adds)
		u.Names[fmt.Sprintf("#c%d", i)], u.Values[fmt.Sprintf(":c%d", i)] = name, dynamo.Number(n)
		adds = append(adds, fmt.Sprintf("#c%d :c%d", i, i))
	}
	add(acceptedAttr, c.Accepted)
	add(enteredAttr, c.Entered)
	for _, code := range promotion.ResultCodes() {
		add(resultPrefix+string(code), c.Results[code])
	}
	u.Expression = "SET #type = :type"
	if len(adds) > 0 {
		u.Expression += " ADD " + strings.Join(adds, ", ")
	}
	return u
}

// DecodeCounts adds up all items with the counts of an event.
func DecodeCounts(items []dynamo.Item) (promotion.Counts, error) {
	var sum promotion.Counts
	for _, it := range items {
		d := dynamo.Reader{Item: it}
		sum.Accepted += d.Number(acceptedAttr)
		sum.Entered += d.Number(enteredAttr)
		for name := range it {
			if code, ok := strings.CutPrefix(name, resultPrefix); ok {
				sum.Add(promotion.ResultCode(code), d.Number(name))
			}
		}
		if d.Err() != nil {
			return sum, fmt.Errorf("figures: %w", d.Err())
		}
	}
	return sum, nil
}
