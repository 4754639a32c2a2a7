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
// written. If one group cannot be closed, it still closes the others. It also closes the counters of
// earlier versions, of which a replica may still run.
func (s *Store) CloseGroups(ctx context.Context, event string) error {
	counters, err := s.counters(ctx, event)
	if err != nil {
		return err
	}
	var failed []error
	for open := range slices.Chunk(counters.open(event), dynamo.MaxTransaction) {
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
		counted[group] = c.own.N + c.shared.N
	}
	return counted, nil
}

// groupCounters has the entry counters of a lottery by group.
type groupCounters map[string]struct {
	own promotion.EntryCounter
	// shared is what earlier versions have counted (table.SharedEntryCounterKey), if there is any.
	shared    promotion.EntryCounter
	hasShared bool
}

// open returns the keys of the counters that are not closed.
func (g groupCounters) open(event string) (keys []dynamo.Item) {
	for _, group := range promotion.LotteryGroups() {
		c := g[group]
		if c.own.ClosedAt == 0 {
			keys = append(keys, table.EntryCounterKey(event, group))
		}
		if c.hasShared && c.shared.ClosedAt == 0 {
			keys = append(keys, table.SharedEntryCounterKey(event, group))
		}
	}
	return keys
}

// counters reads the entry counters of all groups of a lottery.
func (s *Store) counters(ctx context.Context, event string) (groupCounters, error) {
	groups := promotion.LotteryGroups()
	var keys []dynamo.Item
	for _, group := range groups {
		keys = append(keys, table.EntryCounterKey(event, group), table.SharedEntryCounterKey(event, group))
	}
	items, err := s.Read(ctx, keys...)
	if err != nil {
		return nil, err
	}
	counters := make(groupCounters, len(groups))
	for _, group := range groups {
		c, shared := counters[group], items.Get(table.SharedEntryCounterKey(event, group))
		if c.own, err = table.DecodeEntryCounter(items.Get(table.EntryCounterKey(event, group))); err != nil {
			return nil, err
		}
		if c.shared, err = table.DecodeEntryCounter(shared); err != nil {
			return nil, err
		}
		c.hasShared = shared != nil
		counters[group] = c
	}
	return counters, nil
}
