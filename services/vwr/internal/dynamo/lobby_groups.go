package dynamo

import (
	"cmp"
	"context"
	"errors"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// maxParallelGroups is how many groups of a lobby are read or closed at once.
const maxParallelGroups = 8

// groupState is the stored state of a group of entries. A closed group accepts no more entries.
type groupState struct {
	entries int64
	closed  bool
}

// groupStates reads the states of all groups of a lobby consistently.
func (l *Lobbies) groupStates(ctx context.Context, k lobby.Key) (states [lobbyGroups]groupState, err error) {
	keys, byPartition := make([]dynamo.Item, lobbyGroups), make(map[string]int, lobbyGroups)
	for i, g := range selectGroups(k, func(entryGroup) bool { return true }) {
		keys[i] = g.key()
		r := dynamo.Reader{Item: keys[i]}
		byPartition[r.String(attrEvent)] = g.number
	}
	items, err := l.batchGet(ctx, l.positions, keys)
	if err != nil {
		return states, err
	}
	for _, it := range items {
		r := dynamo.Reader{Item: it}
		states[byPartition[r.String(attrEvent)]] = groupState{entries: r.Number(attrCount), closed: r.Bool(attrClosed)}
		if r.Err() != nil {
			return states, toUnavailable(r.Err())
		}
	}
	return states, nil
}

func (l *Lobbies) CountEntries(ctx context.Context, k lobby.Key) (n int64, err error) {
	states, err := l.groupStates(ctx, k)
	for _, st := range states {
		n += st.entries
	}
	return n, err
}

// CloseJoining closes all groups that are open: in one transaction, or one by one if joins are
// writing some of them.
func (l *Lobbies) CloseJoining(ctx context.Context, k lobby.Key) error {
	states, err := l.groupStates(ctx, k)
	if err != nil {
		return err
	}
	open := selectGroups(k, func(g entryGroup) bool { return !states[g.number].closed })
	if len(open) == 0 {
		return nil
	}
	writes := make([]types.TransactWriteItem, len(open))
	for i, g := range open {
		writes[i].Update = l.closingUpdate(g)
	}
	_, err = l.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	if err = conditionalError(err); !errors.Is(err, room.ErrStale) {
		return err
	}
	return forEachGroup(open, func(g entryGroup) error { return l.closeGroup(ctx, g) })
}

func (l *Lobbies) closingUpdate(g entryGroup) *types.Update {
	return &types.Update{
		TableName: &l.positions, Key: g.key(),
		UpdateExpression:          aws.String("SET " + attrClosed + " = :true, #ttl = :ttl"),
		ExpressionAttributeNames:  map[string]string{"#ttl": attrTTL},
		ExpressionAttributeValues: dynamo.Item{":true": dynamo.Bool(true), ":ttl": lobbyExpiry(l.now().UnixMilli())},
	}
}

// closeGroup closes one group. It retries while transactions of joins are writing the group.
func (l *Lobbies) closeGroup(ctx context.Context, g entryGroup) error {
	u := l.closingUpdate(g)
	return conditionalError(dynamo.Repeat(ctx, func() error {
		_, err := l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
			ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
		})
		return err
	}))
}

// selectGroups returns those groups of a lobby for which matches returns true.
func selectGroups(k lobby.Key, matches func(entryGroup) bool) []entryGroup {
	all := make([]entryGroup, 0, lobbyGroups)
	for i := range lobbyGroups {
		if g := (entryGroup{k, i}); matches(g) {
			all = append(all, g)
		}
	}
	return all
}

// forEachGroup calls do for all groups, several at once. If calls fail, it returns the error of the
// first such group in the given order.
func forEachGroup(groups []entryGroup, do func(entryGroup) error) error {
	failed := make([]error, len(groups))
	var work sync.WaitGroup
	slots := make(chan struct{}, maxParallelGroups)
	for i, g := range groups {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			failed[i] = do(g)
		})
	}
	work.Wait()
	return cmp.Or(failed...)
}
