package audit

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/dynamo"
)

const (
	// countSlots is the number of COUNTS items of a promotion. Each is in a partition of its own.
	countSlots = 100
	// workPartitions is the number of partitions of markers, and of announcements, of all promotions.
	workPartitions = 64
	// queriesAtOnce limits the queries that run at the same time.
	queriesAtOnce = 16
)

// readItems reads the items of a promotion by their keys, so that the data of other promotions costs
// nothing. It reads the locks of the users who have a request, and of the users in applied.
func (s *Promotions) readItems(ctx context.Context, eventID string, applied []string) ([]dynamo.Item, error) {
	own, err := s.query(ctx, []partition{{key: "EVENT#" + eventID}})
	if err != nil {
		return nil, err
	}
	indexed := []partition{{index: "GSI2", key: "EVENT#" + eventID}}
	for i := range shardsOf(own) - 1 {
		indexed = append(indexed, partition{index: "GSI2", key: fmt.Sprintf("EVENT#%s#%d", eventID, i+1)})
	}
	requests, err := s.query(ctx, indexed)
	if err != nil {
		return nil, err
	}
	parts := []partition{{key: "DLQ#requests"}}
	for i := range workPartitions {
		parts = append(parts, partition{key: fmt.Sprintf("PENDING#%02x", i)}, partition{key: fmt.Sprintf("OUTBOX#%02x", i)})
	}
	users := slices.Clone(applied)
	for _, item := range requests {
		d := &dynamo.Reader{Item: item}
		// The query of its partition brings the item again, with its log, and as a consistent read does.
		parts = append(parts, partition{key: d.String("PK")})
		users = append(users, d.String("userId"))
	}
	slices.SortFunc(parts, func(a, b partition) int { return cmp.Compare(a.key, b.key) })
	items, err := s.query(ctx, slices.Compact(parts))
	if err != nil {
		return nil, err
	}
	slices.Sort(users)
	keys := countsKeys(eventID)
	for _, user := range slices.Compact(users) {
		keys = append(keys, dynamo.Item{"PK": dynamo.String("IDEMP#" + eventID + "#" + user), "SK": dynamo.String("LOCK")})
	}
	single, err := dynamo.BatchGet(ctx, s.db, s.table, keys)
	return slices.Concat(own, items, single), err
}

// shardsOf returns in how many partitions GSI2 has the requests of a promotion with these items.
func shardsOf(items []dynamo.Item) int64 {
	for _, item := range items {
		if d := (dynamo.Reader{Item: item}); d.String("SK") == "CONFIG" {
			return d.Number("shards")
		}
	}
	return 1
}

// countsKeys returns the keys of a promotion's counters.
func countsKeys(eventID string) []dynamo.Item {
	keys := make([]dynamo.Item, countSlots)
	for i := range keys {
		keys[i] = dynamo.Item{"PK": dynamo.String(fmt.Sprintf("COUNTS#%s#%02d", eventID, i)), "SK": dynamo.String("COUNTS")}
	}
	return keys
}

// partition names a partition of the table or, if index is set, of that index.
type partition struct{ index, key string }

// query reads all items of some partitions, in no particular order.
func (s *Promotions) query(ctx context.Context, partitions []partition) (items []dynamo.Item, err error) {
	var mu sync.Mutex
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(queriesAtOnce)
	for _, p := range partitions {
		group.Go(func() error {
			in := &dynamodb.QueryInput{
				TableName: &s.table, ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("PK = :pk"),
				ExpressionAttributeValues: dynamo.Item{":pk": dynamo.String(p.key)},
			}
			if p.index != "" {
				in.IndexName, in.ConsistentRead, in.KeyConditionExpression = &p.index, nil, aws.String(p.index+"PK = :pk")
			}
			for pages := dynamodb.NewQueryPaginator(s.db, in); pages.HasMorePages(); {
				page, err := pages.NextPage(ctx)
				if err != nil {
					return err
				}
				mu.Lock()
				items = append(items, page.Items...)
				mu.Unlock()
			}
			return nil
		})
	}
	return items, group.Wait()
}
