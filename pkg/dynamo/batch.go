package dynamo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// batchGetMax and batchWriteMax are the most keys that DynamoDB accepts in one call. batchTries is
// the maximum number of calls that are made until no key is left unprocessed.
const (
	batchGetMax   = 100
	batchWriteMax = 25
	batchTries    = 6
)

// BatchGet reads items consistently, in parallel calls of at most 100 keys. keys must be unique.
// The result has no particular order and lacks the items that do not exist.
func BatchGet(ctx context.Context, client *dynamodb.Client, table string, keys []Item) ([]Item, error) {
	items, _, err := batchGet(ctx, client, table, keys, true)
	return items, err
}

// BatchGetEventual is BatchGet with eventually consistent reads, which cost half as many read units.
func BatchGetEventual(ctx context.Context, client *dynamodb.Client, table string, keys []Item) ([]Item, error) {
	items, _, err := batchGet(ctx, client, table, keys, false)
	return items, err
}

// BatchGetPartial is BatchGet for callers who can use a part of the items. unread are the keys that
// could not be read, because of err.
func BatchGetPartial(ctx context.Context, client *dynamodb.Client, table string, keys []Item) (items, unread []Item, err error) {
	return batchGet(ctx, client, table, keys, true)
}

func batchGet(ctx context.Context, client *dynamodb.Client, table string, keys []Item, consistent bool) (items, unread []Item, err error) {
	var mu sync.Mutex
	EachChunk(keys, batchGetMax, func(chunk []Item) {
		got, left, failure := batchGetChunk(ctx, client, table, chunk, consistent)
		mu.Lock()
		defer mu.Unlock()
		items, unread, err = append(items, got...), append(unread, left...), errors.Join(err, failure)
	})
	return items, unread, err
}

// EachChunk calls do concurrently with chunks of at most size items, and waits for the calls. The
// last call runs in the caller's goroutine: the stack of a new one would have to grow for the SDK.
func EachChunk[I any](items []I, size int, do func([]I)) {
	var work sync.WaitGroup
	for ; len(items) > size; items = items[size:] {
		chunk := items[:size:size]
		work.Go(func() { do(chunk) })
	}
	if len(items) > 0 {
		do(items)
	}
	work.Wait()
}

func batchGetChunk(
	ctx context.Context, client *dynamodb.Client, table string, keys []Item, consistent bool,
) (items, unread []Item, err error) {
	type pendingKeys = map[string]types.KeysAndAttributes
	pending := pendingKeys{table: {Keys: keys, ConsistentRead: &consistent}}
	left, err := untilProcessed(ctx, table, pending, func(pending pendingKeys) (pendingKeys, error) {
		out, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: pending})
		if err != nil {
			return nil, err
		}
		items = append(items, out.Responses[table]...)
		return out.UnprocessedKeys, nil
	})
	return items, left[table].Keys, err
}

// BatchDelete deletes items without conditions, in calls of at most 25 keys. keys must be unique.
// It is not atomic: after an error, some items may be deleted.
func BatchDelete(ctx context.Context, client *dynamodb.Client, table string, keys []Item) error {
	return batchWrite(ctx, client, table, keys, func(key Item) types.WriteRequest {
		return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}}
	})
}

// BatchPut writes whole items without conditions, in calls of at most 25. Their keys must be
// unique. Like BatchDelete it is not atomic.
func BatchPut(ctx context.Context, client *dynamodb.Client, table string, items []Item) error {
	return batchWrite(ctx, client, table, items, func(it Item) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: it}}
	})
}

func batchWrite(ctx context.Context, client *dynamodb.Client, table string, items []Item, request func(Item) types.WriteRequest) error {
	for chunk := range slices.Chunk(items, batchWriteMax) {
		requests := make([]types.WriteRequest, len(chunk))
		for i, it := range chunk {
			requests[i] = request(it)
		}
		pending := map[string][]types.WriteRequest{table: requests}
		_, err := untilProcessed(ctx, table, pending, func(pending map[string][]types.WriteRequest) (map[string][]types.WriteRequest, error) {
			out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: pending})
			if err != nil {
				return nil, err
			}
			return out.UnprocessedItems, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// untilProcessed repeats a batch call with the keys that DynamoDB left unprocessed, until none is
// left. After 6 calls it fails with ProvisionedThroughputExceededException. After a failure it returns
// the keys that are left.
func untilProcessed[T any](ctx context.Context, table string, pending map[string]T, call func(map[string]T) (map[string]T, error)) (map[string]T, error) {
	wait := 20 * time.Millisecond
	for range batchTries {
		left, err := call(pending)
		if err != nil {
			return pending, err
		}
		if pending = left; len(pending) == 0 {
			return nil, nil //nolint:nilnil // nothing is left
		}
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return pending, ctx.Err()
		}
	}
	return pending, &types.ProvisionedThroughputExceededException{
		Message: aws.String(fmt.Sprintf("keys of %s stay unprocessed after %d attempts", table, batchTries)),
	}
}
