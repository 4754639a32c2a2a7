package dynamo

import (
	"context"
	"errors"

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
	var open []string
	var writes []types.TransactWriteItem
	for _, group := range promotion.LotteryGroups() {
		if counters[group].ClosedAt == 0 {
			open = append(open, group)
			writes = append(writes, types.TransactWriteItem{Update: s.closeGroupUpdate(event, group)})
		}
	}
	if len(open) == 0 {
		return nil
	}
	_, err = s.Client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	if !dynamo.Contended(err) {
		return dynamo.Err(err)
	}
	failed := make([]error, len(open))
	for i, group := range open {
		failed[i] = s.CloseGroup(ctx, event, group)
	}
	return errors.Join(failed...)
}

// CloseGroup makes one group refuse further entries, also while transactions write entries of it.
func (s *Store) CloseGroup(ctx context.Context, event, group string) error {
	u := s.closeGroupUpdate(event, group)
	return dynamo.Err(dynamo.Repeat(ctx, func() error {
		_, err := s.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
		})
		return err
	}))
}

func (s *Store) closeGroupUpdate(event, group string) *types.Update {
	u := table.CloseEntryCounter(s.Millis())
	return &types.Update{
		TableName: &s.Table, Key: table.EntryCounterKey(event, group), UpdateExpression: &u.Expression,
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

// counters reads the entry counters of all groups of a lottery.
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
