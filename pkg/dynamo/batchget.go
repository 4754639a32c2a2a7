package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Limit of keys per BatchGetItem, and of attempts to read unprocessed keys.
const (
	batchGetMax   = 100
	batchGetTries = 6
)

// BatchGet reads items consistently, in parallel calls of 100 keys. keys must be unique. The result
// has no order and omits absent items.
func BatchGet(ctx context.Context, client *dynamodb.Client, table string, keys []Item) ([]Item, error) {
	var (
		mu    sync.Mutex
		items []Item
		all   []error
		work  sync.WaitGroup
	)
	for start := 0; start < len(keys); start += batchGetMax {
		part := keys[start:min(start+batchGetMax, len(keys))]
		work.Go(func() {
			got, err := batchGetPart(ctx, client, table, part)
			mu.Lock()
			defer mu.Unlock()
			items = append(items, got...)
			if err != nil {
				all = append(all, err)
			}
		})
	}
	work.Wait()
	return items, errors.Join(all...)
}

func batchGetPart(ctx context.Context, client *dynamodb.Client, table string, keys []Item) ([]Item, error) {
	var items []Item
	wait := 20 * time.Millisecond
	want := map[string]types.KeysAndAttributes{table: {Keys: keys, ConsistentRead: aws.Bool(true)}}
	for range batchGetTries {
		out, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: want})
		if err != nil {
			return nil, err
		}
		items = append(items, out.Responses[table]...)
		if len(out.UnprocessedKeys) == 0 {
			return items, nil
		}
		want = out.UnprocessedKeys
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, &types.ProvisionedThroughputExceededException{
		Message: aws.String(fmt.Sprintf("keys of %s stay unprocessed after %d attempts", table, batchGetTries)),
	}
}
