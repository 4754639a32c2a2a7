package dynamo

import (
	"context"
	"errors"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
)

// CloseGroups closes the open groups in one transaction, or one by one while entries are being
// written. If one group cannot be closed, it still closes the others.
func (s *Store) CloseGroups(ctx context.Context, event string) error {
	counters, err := s.counters(ctx, event)
	if err != nil {
		return err
	}
	var keys []dynamo.Item
	for _, group := range promotion.LotteryGroups() {
		if counters[group].ClosedAt == 0 {
			keys = append(keys, table.EntryCounterKey(event, group))
		}
	}
	var failed []error
	for open := range slices.Chunk(keys, dynamo.MaxTransaction) {
		failed = append(failed, s.closeCounters(ctx, open))
	}
	return errors.Join(failed...)
}

// closeCounters closes the counters with these keys.
func (s *Store) closeCounters(ctx context.Context, open []dynamo.Item) error {
	var writes []types.TransactWriteItem
	for _, key := range open {
		writes = append(writes, types.TransactWriteItem{Update: s.closeUpdate(key)})
	}
	_, err := s.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	if !dynamo.Contended(err) {
		return dynamo.Err(err)
	}
	failed := make([]error, len(open))
	for i, key := range open {
		failed[i] = s.closeCounter(ctx, key)
	}
	return errors.Join(failed...)
}

// closeCounter makes one group refuse further entries, also while transactions write entries of it.
func (s *Store) closeCounter(ctx context.Context, key dynamo.Item) error {
	u := s.closeUpdate(key)
	return dynamo.Err(dynamo.Repeat(ctx, func() error {
		_, err := s.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
		})
		return err
	}))
}

func (s *Store) closeUpdate(key dynamo.Item) *types.Update {
	u := table.CloseEntryCounter(s.Millis())
	return &types.Update{
		TableName: &s.Table, Key: key, UpdateExpression: &u.Expression,
		ExpressionAttributeNames: u.Names, ExpressionAttributeValues: u.Values,
	}
}

func (s *Store) EntryCounts(ctx context.Context, event string) (map[string]int64, error) {
	counters, err := s.counters(ctx, event)
	if err != nil {
		return nil, err
	}
	counted := make(map[string]int64, len(counters))
	for group, c := range counters {
		counted[group] = c.N
	}
	return counted, nil
}

// counters reads the entry counters of a lottery, by group.
func (s *Store) counters(ctx context.Context, event string) (map[string]promotion.EntryCounter, error) {
	groups := promotion.LotteryGroups()
	keys := make([]dynamo.Item, len(groups))
	for i, group := range groups {
		keys[i] = table.EntryCounterKey(event, group)
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	counters := make(map[string]promotion.EntryCounter, len(groups))
	for i, group := range groups {
		if counters[group], err = table.DecodeEntryCounter(items.Get(keys[i])); err != nil {
			return nil, err
		}
	}
	return counters, nil
}
