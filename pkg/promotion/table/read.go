package table

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// Items holds items of the table; Get finds one by its key.
type Items map[string]dynamo.Item

func (i Items) Get(key dynamo.Item) dynamo.Item { return i[keyText(key)] }

func keyText(it dynamo.Item) string {
	r := dynamo.Reader{Item: it}
	return r.String(PK) + "\x00" + r.String(SK)
}

// PartitionQuery describes a consistent query of one partition, in the order of the sort keys.
type PartitionQuery struct {
	PK            string
	Prefix, Below string // at most one is set: the beginning of the sort keys, or an upper bound
	After         string // the page begins after this sort key
	Descending    bool
	Limit         int32
	KeysOnly      bool // leaves out all other attributes
	Eventual      bool // reads eventually consistently, for half the read units
}

// Query reads one page of a partition. more reports that there may be further pages.
func (s Store) Query(ctx context.Context, p PartitionQuery) (items []dynamo.Item, more bool, err error) {
	in := &dynamodb.QueryInput{
		TableName: &s.Table, ConsistentRead: aws.Bool(!p.Eventual), ScanIndexForward: aws.Bool(!p.Descending),
		KeyConditionExpression:    aws.String("PK = :pk"),
		ExpressionAttributeValues: dynamo.Item{":pk": dynamo.String(p.PK)},
	}
	switch {
	case p.Prefix != "":
		in.KeyConditionExpression = aws.String("PK = :pk AND begins_with(SK, :prefix)")
		in.ExpressionAttributeValues[":prefix"] = dynamo.String(p.Prefix)
	case p.Below != "":
		in.KeyConditionExpression = aws.String("PK = :pk AND SK < :below")
		in.ExpressionAttributeValues[":below"] = dynamo.String(p.Below)
	}
	if p.After != "" {
		in.ExclusiveStartKey = Key(p.PK, p.After)
	}
	if p.KeysOnly {
		in.ProjectionExpression = aws.String(PK + ", " + SK)
	}
	if p.Limit > 0 {
		in.Limit = &p.Limit
	}
	out, err := s.Client.Query(ctx, in)
	if err != nil {
		return nil, false, dynamo.Err(err)
	}
	return out.Items, len(out.LastEvaluatedKey) > 0, nil
}

// SortKey returns the sort key of an item.
func SortKey(it dynamo.Item) string {
	r := dynamo.Reader{Item: it}
	return r.String(SK)
}

// All returns an iterator over the items of a partition, which reads the pages as they are needed.
// It ends after an error.
func (s Store) All(ctx context.Context, p PartitionQuery) iter.Seq2[dynamo.Item, error] {
	return func(yield func(dynamo.Item, error) bool) {
		for more := true; more; {
			var items []dynamo.Item
			var err error
			if items, more, err = s.Query(ctx, p); err != nil {
				yield(nil, err)
				return
			}
			for _, it := range items {
				if !yield(it, nil) {
					return
				}
				p.After = SortKey(it)
			}
			more = more && len(items) > 0
		}
	}
}

// winnersAtOnce is how many items with winners, 320 KB each, one call reads at most.
const winnersAtOnce = 10

// Winners reads the winners of a draw, in the order of their ranks.
func (s Store) Winners(ctx context.Context, d *promotion.Draw) ([]uuid.UUID, error) {
	winners := make([]uuid.UUID, 0, d.WinnersCount)
	for keys := range slices.Chunk(WinnersKeys(d), winnersAtOnce) {
		items, err := s.Read(ctx, keys...)
		if err != nil {
			return nil, err
		}
		for _, key := range keys {
			chunk, err := DecodeWinners(items.Get(key))
			if err != nil {
				return nil, err
			}
			winners = append(winners, chunk...)
		}
	}
	if int64(len(winners)) != d.WinnersCount {
		return nil, fmt.Errorf("draw of %s: %d of %d winners", d.EventID, len(winners), d.WinnersCount)
	}
	return winners, nil
}
