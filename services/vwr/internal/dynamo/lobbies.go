package dynamo

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw/beacon"
	"urr.guru/services/vwr/internal/lobby"
	"urr.guru/services/vwr/internal/room"
)

// isAbsent is the condition that an item does not exist yet.
const isAbsent = "attribute_not_exists(" + attrEvent + ")"

// Lobbies stores lobbies and their shuffles in the tables of a Store. It is safe for concurrent use.
type Lobbies struct {
	*Store

	joins *batch.Groups[entryGroup, joinRequest, lobby.Entry]
}

var (
	_ lobby.EntryStore        = (*Lobbies)(nil)
	_ lobby.ShuffleReader     = (*Lobbies)(nil)
	_ lobby.ShuffleWriter     = (*Lobbies)(nil)
	_ lobby.UnfinishedLobbies = (*Lobbies)(nil)
)

// NewLobbies returns Lobbies that use the tables of s.
func NewLobbies(s *Store) *Lobbies {
	l := &Lobbies{Store: s}
	// A replica runs one transaction of a group at a time, since each one writes the group's counter.
	l.joins = batch.NewGroups(batch.Config{Max: maxJoins, Inflight: 1, Timeout: takesTimeout}, maxEvents, l.joinGroup)
	return l
}

func (l *Lobbies) Close(ctx context.Context) error { return l.joins.Close(ctx) }

func (l *Lobbies) LobbyStore() lobby.Store {
	return lobby.Store{Entries: l, Shuffles: l, Steps: l, Unfinished: l}
}

// lobbyOpeningWrites returns the writes that open a lobby, which are made when its round starts.
func (s *Store) lobbyOpeningWrites(next room.Counters, o *room.LobbyOpening) []types.TransactWriteItem {
	return []types.TransactWriteItem{
		{Put: &types.Put{TableName: &s.positions, Item: fromOpening(next, o), ConditionExpression: aws.String(isAbsent)}},
		{Update: s.registryUpdate(lobbiesID, "ADD", lobbyName(lobby.Key{EventID: next.EventID, Round: next.Round}))},
	}
}

func (l *Lobbies) Unfinished(ctx context.Context) ([]lobby.Key, error) {
	out, err := l.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &l.counters, Key: counterKey(lobbiesID), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, toUnavailable(err)
	}
	names, _ := out.Item[attrRegistry].(*types.AttributeValueMemberSS)
	if names == nil {
		return nil, nil
	}
	keys := make([]lobby.Key, len(names.Value))
	for i, name := range names.Value {
		if keys[i], err = parseLobbyName(name); err != nil {
			return nil, toUnavailable(err)
		}
	}
	return keys, nil
}

func (l *Lobbies) RemoveUnfinished(ctx context.Context, k lobby.Key) error {
	u := l.registryUpdate(lobbiesID, "DELETE", lobbyName(k))
	_, err := l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
		ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
	})
	return conditionalError(err)
}

func (l *Lobbies) Shuffle(ctx context.Context, k lobby.Key) (lobby.Shuffle, bool, error) {
	out, err := l.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &l.positions, Key: shuffleKey(k), ConsistentRead: aws.Bool(true),
	})
	if err != nil || out.Item == nil {
		return lobby.Shuffle{}, false, toUnavailable(err)
	}
	sh, err := toShuffle(out.Item, k.EventID)
	return sh, err == nil, toUnavailable(err)
}

func (l *Lobbies) Latest(ctx context.Context, eventID string) (lobby.Shuffle, bool, error) {
	all, err := l.Shuffles(ctx, eventID, 0, 1)
	if err != nil || len(all) == 0 {
		return lobby.Shuffle{}, false, err
	}
	return all[0], true, nil
}

func (l *Lobbies) Shuffles(ctx context.Context, eventID string, before room.Round, limit int) ([]lobby.Shuffle, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	query := dynamodb.NewQueryPaginator(l.db, &dynamodb.QueryInput{
		TableName: &l.positions, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(int32(limit)), //nolint:gosec // a constant
		KeyConditionExpression:    aws.String(attrEvent + " = :lobby AND " + attrRequest + " < :before"),
		ExpressionAttributeValues: dynamo.Item{":lobby": dynamo.String(fmt.Sprintf(lobbyPartition, eventID)), ":before": dynamo.String(fmt.Sprintf(roundForm, before))},
	})
	var all []lobby.Shuffle
	for query.HasMorePages() && len(all) < limit {
		page, err := query.NextPage(ctx)
		if err != nil {
			return nil, toUnavailable(err)
		}
		for _, it := range page.Items {
			sh, err := toShuffle(it, eventID)
			if err != nil {
				return nil, toUnavailable(err)
			}
			all = append(all, sh)
		}
	}
	return all[:min(limit, len(all))], nil
}

// changeShuffle updates a stored shuffle that is not final. condition is an additional condition,
// which begins with AND. If a condition does not hold, changeShuffle fails with room.ErrStale.
func (l *Lobbies) changeShuffle(ctx context.Context, k lobby.Key, update, condition string, values dynamo.Item) error {
	_, err := l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &l.positions, Key: shuffleKey(k), UpdateExpression: &update,
		ConditionExpression: aws.String(isUndecided + condition), ExpressionAttributeValues: values,
	})
	return conditionalError(err)
}

// isUndecided is the condition of every change of a shuffle: it is stored, and not final.
const isUndecided = "attribute_exists(" + attrCommitment + ") AND attribute_not_exists(" + attrSeed + ") AND attribute_not_exists(" + attrVoided + ")"

const setBeaconValue = attrValueRound + " = :beaconRound, " + attrValue + " = :beaconValue, " + attrValueSign + " = :beaconSignature"

func (l *Lobbies) SetStatement(ctx context.Context, k lobby.Key, before, statement string) error {
	condition, values := " AND attribute_not_exists("+attrStatement+")", dynamo.Item{":statement": dynamo.String(statement)}
	if before != "" {
		condition = " AND " + attrStatement + " = :before AND attribute_not_exists(" + attrSignature + ")"
		values[":before"] = dynamo.String(before)
	}
	return l.changeShuffle(ctx, k, "SET "+attrStatement+" = :statement", condition, values)
}

func (l *Lobbies) SetSignature(ctx context.Context, k lobby.Key, statement, signature string) error {
	return l.changeShuffle(ctx, k, "SET "+attrSignature+" = :signature",
		" AND "+attrStatement+" = :statement AND attribute_not_exists("+attrSignature+")",
		dynamo.Item{":statement": dynamo.String(statement), ":signature": dynamo.String(signature)})
}

func (l *Lobbies) SetBeaconRound(ctx context.Context, k lobby.Key, r beacon.Round) error {
	return l.changeShuffle(ctx, k, "SET "+setBeaconValue, " AND attribute_exists("+attrSignature+")", beaconRoundValues(r))
}

func (l *Lobbies) SetResult(ctx context.Context, k lobby.Key, seed, orderHash string, r *beacon.Round) error {
	values := dynamo.Item{":seed": dynamo.String(seed), ":order": dynamo.String(orderHash)}
	condition := " AND attribute_exists(" + attrSignature + ")"
	if r == nil {
		condition += " AND attribute_not_exists(" + attrValueRound + ")"
	} else {
		condition += " AND " + attrValueRound + " = :beaconRound AND " + attrValue + " = :beaconValue"
		beaconValues := beaconRoundValues(*r)
		values[":beaconRound"], values[":beaconValue"] = beaconValues[":beaconRound"], beaconValues[":beaconValue"]
	}
	return l.changeShuffle(ctx, k, "SET "+attrSeed+" = :seed, "+attrOrder+" = :order", condition, values)
}

func (l *Lobbies) Void(ctx context.Context, k lobby.Key, at int64) error {
	return l.changeShuffle(ctx, k, "SET "+attrVoided+" = :at", " AND attribute_not_exists("+attrValueRound+")", dynamo.Item{":at": dynamo.Number(at)})
}

func (l *Lobbies) SetSize(ctx context.Context, k lobby.Key, entries int64) error {
	return l.changeRoom(ctx, k, attrLobbySize+" = :n, "+attrIssued+" = "+attrIssued+" + :n",
		"attribute_not_exists("+attrLobbySize+") AND "+attrIssued+" = :zero AND "+attrServing+" = :zero",
		dynamo.Item{":n": dynamo.Number(entries), ":zero": dynamo.Number(0)})
}

func (l *Lobbies) SetShuffled(ctx context.Context, k lobby.Key) error {
	return l.changeRoom(ctx, k, attrShuffledAt+" = :now",
		"attribute_exists("+attrLobbySize+") AND attribute_not_exists("+attrShuffledAt+")", dynamo.Item{})
}

// changeRoom sets attributes of the event's counters while the lobby's round is active. The SDK
// does not retry it: if the first attempt took effect, the condition of a retry would fail.
func (l *Lobbies) changeRoom(ctx context.Context, k lobby.Key, set, condition string, values dynamo.Item) error {
	values[":now"], values[":round"], values[":true"] = dynamo.Number(l.now().UnixMilli()), dynamo.Number(int64(k.Round)), dynamo.Bool(true)
	_, err := l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &l.counters, Key: counterKey(k.EventID),
		UpdateExpression:          aws.String("SET " + set + ", " + attrUpdated + " = :now"),
		ConditionExpression:       aws.String(isActiveRound + " AND " + hasLobby + " AND " + condition),
		ExpressionAttributeValues: values,
	}, dynamo.NoRetry)
	return conditionalError(err)
}

// errConflict means that other replicas wrote a group during every attempt to store its entries.
var errConflict = errors.New("the group of entries was written by others all the time")
