package table

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// countSlots is the number of items over which the figures of an event are spread.
const countSlots = countBlocks * blockSlots

// CountsKey is the key of one of the items with an event's figures, each in a partition of its own.
// Any slot below countSlots will do.
func CountsKey(event string, slot int) dynamo.Item {
	return Key(fmt.Sprintf("COUNTS#%s#%02d", event, slot), "COUNTS")
}

// Counts reads the figures of an event.
func (s Store) Counts(ctx context.Context, event string) (promotion.Counts, error) {
	keys := make([]dynamo.Item, countSlots)
	for slot := range keys {
		keys[slot] = CountsKey(event, slot)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return promotion.Counts{}, err
	}
	return DecodeCounts(slices.Collect(maps.Values(items)))
}

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
