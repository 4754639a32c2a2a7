package dynamo

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/loop"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

const (
	maxJoins     = dynamo.MaxTransaction - 1 // the most entries in one transaction, beside the counter
	maxJoinTries = 10                        // other replicas may write the group too
)

// joinRequest asks to store an entry. If open is false, the lobby accepts no new entries: only an
// entry that is already stored is returned.
type joinRequest struct {
	entry lobby.Entry
	open  bool
}

// Join stores an entry, or returns the one that its user already has. Joins that arrive while a
// transaction of their group runs share the next transaction.
func (l *Lobbies) Join(ctx context.Context, e lobby.Entry, open bool) (lobby.Entry, error) {
	return l.joins.Do(ctx, groupOf(e.Key, e.RequestID), joinRequest{e, open})
}

// joinGroup stores the entries of one group. If another replica has written the group or one of the
// entries meanwhile, joinGroup reads the stored entries again and retries.
func (l *Lobbies) joinGroup(ctx context.Context, g entryGroup, in []joinRequest) ([]batch.Result[lobby.Entry], error) {
	out := make([]batch.Result[lobby.Entry], len(in))
	for try := range maxJoinTries {
		if try > 0 && !loop.Sleep(ctx, 5*time.Millisecond+rand.N(time.Duration(try)*20*time.Millisecond)) { //nolint:gosec // jitter
			return nil, toUnavailable(ctx.Err())
		}
		stored, err := l.readEntries(ctx, g, in)
		if err != nil {
			return nil, err
		}
		var fresh []lobby.Entry
		added := make(map[uuid.UUID]bool)
		for i, r := range in {
			e, found := stored[r.entry.RequestID]
			switch {
			case found:
				out[i] = batch.Result[lobby.Entry]{Value: e}
			case !r.open:
				out[i] = batch.Result[lobby.Entry]{Err: room.ErrLobbyClosed}
			case !added[r.entry.RequestID]:
				added[r.entry.RequestID] = true
				fresh = append(fresh, r.entry)
			}
		}
		if len(fresh) == 0 {
			return out, nil
		}
		err = l.storeNewEntries(ctx, g, fresh)
		switch {
		case err == nil:
			failpoint.Hit("vwr.lobby_joined")
			setResults(in, fresh, out, nil)
			return out, nil
		case errors.Is(err, room.ErrLobbyClosed):
			setResults(in, fresh, out, err)
			return out, nil
		case !errors.Is(err, room.ErrStale):
			return nil, err
		}
	}
	return nil, toUnavailable(errConflict)
}

// setResults sets the results of those requests in `in` that asked to store one of the new entries.
func setResults(in []joinRequest, fresh []lobby.Entry, out []batch.Result[lobby.Entry], err error) {
	for i, r := range in {
		for _, e := range fresh {
			if r.open && e.RequestID == r.entry.RequestID {
				out[i] = batch.Result[lobby.Entry]{Value: e, Err: err}
			}
		}
	}
}

func (l *Lobbies) readEntries(ctx context.Context, g entryGroup, in []joinRequest) (map[uuid.UUID]lobby.Entry, error) {
	requested := make(map[uuid.UUID]lobby.Entry, len(in))
	var keys []dynamo.Item
	for _, r := range in {
		if _, found := requested[r.entry.RequestID]; !found {
			requested[r.entry.RequestID] = r.entry
			keys = append(keys, g.entryKey(r.entry.RequestID))
		}
	}
	items, err := l.batchGet(ctx, l.positions, keys)
	if err != nil {
		return nil, err
	}
	stored := make(map[uuid.UUID]lobby.Entry, len(items))
	for _, it := range items {
		id, err := g.entryID(&dynamo.Reader{Item: it})
		if err == nil {
			stored[id], err = toEntry(it, requested[id])
		}
		if err != nil {
			return nil, toUnavailable(err)
		}
	}
	return stored, nil
}

// storeNewEntries stores new entries and adds their number to the counter of their group, in one
// transaction. It fails with room.ErrLobbyClosed if the group is closed.
func (l *Lobbies) storeNewEntries(ctx context.Context, g entryGroup, fresh []lobby.Entry) error {
	writes := []types.TransactWriteItem{{Update: &types.Update{
		TableName: &l.positions, Key: g.key(),
		UpdateExpression:          aws.String("ADD #n :n SET #ttl = :ttl"),
		ConditionExpression:       aws.String("attribute_not_exists(" + attrClosed + ")"),
		ExpressionAttributeNames:  map[string]string{"#n": attrCount, "#ttl": attrTTL},
		ExpressionAttributeValues: dynamo.Item{":n": dynamo.Number(int64(len(fresh))), ":ttl": lobbyExpiry(fresh[0].StartsAt)},
	}}}
	for _, e := range fresh {
		writes = append(writes, types.TransactWriteItem{Put: &types.Put{
			TableName: &l.positions, Item: fromEntry(e), ConditionExpression: aws.String(isAbsent),
		}})
	}
	_, err := l.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: writes})
	if canceled, ok := dynamo.Canceled(err); ok && canceled.Failed(0) {
		return room.ErrLobbyClosed
	}
	return conditionalError(err)
}

func (l *Lobbies) Entry(ctx context.Context, k lobby.Key, id uuid.UUID) (lobby.Entry, bool, error) {
	out, err := l.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &l.positions, Key: groupOf(k, id).entryKey(id), ConsistentRead: aws.Bool(true),
	})
	if err != nil || out.Item == nil {
		return lobby.Entry{}, false, toUnavailable(err)
	}
	e, err := toEntry(out.Item, lobby.Entry{Key: k, RequestID: id})
	return e, err == nil, toUnavailable(err)
}

func (l *Lobbies) List(ctx context.Context, k lobby.Key) (fairdraw.Entries, error) {
	states, err := l.groupStates(ctx, k)
	if err != nil {
		return nil, err
	}
	filled := selectGroups(k, func(g entryGroup) bool { return !states[g.number].closed || states[g.number].entries > 0 })
	var lists [lobbyGroups]fairdraw.Entries
	if err := forEachGroup(filled, func(g entryGroup) (err error) {
		lists[g.number], err = l.listGroup(ctx, g)
		return err
	}); err != nil {
		return nil, err
	}
	total := 0
	pages := make([]fairdraw.Pages, lobbyGroups)
	for i, list := range lists {
		total += len(list)
		pages[i] = func() (fairdraw.Entries, error) {
			page := list
			list = nil
			return page, nil
		}
	}
	all := make(fairdraw.Entries, 0, total)
	err = fairdraw.Merge(pages, func(id uuid.UUID) error {
		all = append(all, id[:]...)
		return nil
	})
	return all, toUnavailable(err)
}

// listGroup reads the ids of a group's entries in ascending order: the sort keys end with them.
func (l *Lobbies) listGroup(ctx context.Context, g entryGroup) (fairdraw.Entries, error) {
	var ids bytes.Buffer
	query := dynamodb.NewQueryPaginator(l.db, &dynamodb.QueryInput{
		TableName: &l.positions, ConsistentRead: aws.Bool(true), ProjectionExpression: aws.String(attrRequest),
		KeyConditionExpression:    aws.String(attrEvent + " = :group AND begins_with(" + attrRequest + ", :round)"),
		ExpressionAttributeValues: dynamo.Item{":group": g.partition(), ":round": dynamo.String(g.prefix())},
	})
	for query.HasMorePages() {
		page, err := query.NextPage(ctx)
		if err != nil {
			return nil, toUnavailable(err)
		}
		for _, it := range page.Items {
			id, err := g.entryID(&dynamo.Reader{Item: it})
			if err != nil {
				return nil, toUnavailable(err)
			}
			ids.Write(id[:])
		}
	}
	return ids.Bytes(), nil
}
