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

// Lobbies stores the entries of lobbies and their shuffles in the tables of a Store. It is safe for
// concurrent use.
type Lobbies struct {
	*Store

	joins *batch.Groups[group, joinRequest, lobby.Entry]
}

var (
	_ lobby.Entries    = lobbyStore{}
	_ lobby.Shuffles   = lobbyStore{}
	_ lobby.Steps      = lobbyStore{}
	_ lobby.Unfinished = lobbyStore{}
)

// NewLobbies returns Lobbies over the tables of s.
func NewLobbies(s *Store) *Lobbies {
	l := &Lobbies{Store: s}
	// A group has one transaction in flight per replica, since each writes the group's counter.
	l.joins = batch.NewGroups(batch.Config{Max: maxJoins, Inflight: 1, Timeout: takesTimeout}, maxEvents, l.joinGroup)
	return l
}

// Close waits for the joins in flight.
func (l *Lobbies) Close(ctx context.Context) error { return l.joins.Close(ctx) }

// Lobby returns l as a lobby.Store.
func (l *Lobbies) Lobby() lobby.Store {
	s := lobbyStore{l}
	return lobby.Store{Entries: s, Shuffles: s, Steps: s, Unfinished: s}
}

// lobbyStore gives methods of Lobbies the names in lobby.Store, which Store has for rooms.
type lobbyStore struct{ l *Lobbies }

// opening returns the writes that open a lobby with its round.
func (s *Store) opening(next room.Counters, o *room.Opening) []types.TransactWriteItem {
	return []types.TransactWriteItem{
		{Put: &types.Put{TableName: &s.positions, Item: fromOpening(next, o), ConditionExpression: aws.String(isAbsent)}},
		{Update: s.register(lobbiesID, "ADD", lobbyName(lobby.Key{EventID: next.EventID, Round: next.Round}))},
	}
}

func (s lobbyStore) Unfinished(ctx context.Context) ([]lobby.Key, error) {
	out, err := s.l.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.l.counters, Key: counterKey(lobbiesID), ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		return nil, unavailable(err)
	}
	names, _ := out.Item[attrRegistry].(*types.AttributeValueMemberSS)
	if names == nil {
		return nil, nil
	}
	keys := make([]lobby.Key, len(names.Value))
	for i, name := range names.Value {
		if keys[i], err = parseLobbyName(name); err != nil {
			return nil, unavailable(err)
		}
	}
	return keys, nil
}

func (s lobbyStore) Finish(ctx context.Context, k lobby.Key) error {
	u := s.l.register(lobbiesID, "DELETE", lobbyName(k))
	_, err := s.l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: u.TableName, Key: u.Key, UpdateExpression: u.UpdateExpression,
		ExpressionAttributeNames: u.ExpressionAttributeNames, ExpressionAttributeValues: u.ExpressionAttributeValues,
	})
	return conditional(err)
}

func (s lobbyStore) Shuffle(ctx context.Context, k lobby.Key) (lobby.Shuffle, bool, error) {
	out, err := s.l.db.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &s.l.positions, Key: shuffleKey(k), ConsistentRead: aws.Bool(true),
	})
	if err != nil || out.Item == nil {
		return lobby.Shuffle{}, false, unavailable(err)
	}
	sh, err := toShuffle(out.Item, k.EventID)
	return sh, err == nil, unavailable(err)
}

func (s lobbyStore) Latest(ctx context.Context, eventID string) (lobby.Shuffle, bool, error) {
	all, err := s.Shuffles(ctx, eventID, 0, 1)
	if err != nil || len(all) == 0 {
		return lobby.Shuffle{}, false, err
	}
	return all[0], true, nil
}

func (s lobbyStore) Shuffles(ctx context.Context, eventID string, before room.Round, limit int) ([]lobby.Shuffle, error) {
	if before == 0 {
		before = math.MaxInt64
	}
	query := dynamodb.NewQueryPaginator(s.l.db, &dynamodb.QueryInput{
		TableName: &s.l.positions, ConsistentRead: aws.Bool(true), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(int32(limit)), //nolint:gosec // a constant
		KeyConditionExpression:    aws.String(attrEvent + " = :lobby AND " + attrRequest + " < :before"),
		ExpressionAttributeValues: item{":lobby": str(fmt.Sprintf(lobbyPartition, eventID)), ":before": str(fmt.Sprintf(roundForm, before))},
	})
	var all []lobby.Shuffle
	for query.HasMorePages() && len(all) < limit {
		page, err := query.NextPage(ctx)
		if err != nil {
			return nil, unavailable(err)
		}
		for _, it := range page.Items {
			sh, err := toShuffle(it, eventID)
			if err != nil {
				return nil, unavailable(err)
			}
			all = append(all, sh)
		}
	}
	return all[:min(limit, len(all))], nil
}

// change updates a shuffle on a condition.
func (s lobbyStore) change(ctx context.Context, k lobby.Key, update, condition string, values item) error {
	_, err := s.l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.l.positions, Key: shuffleKey(k), UpdateExpression: &update,
		ConditionExpression: aws.String(attrOpen + condition), ExpressionAttributeValues: values,
	})
	return conditional(err)
}

// attrOpen is the condition of every change: the shuffle is stored, and not final.
const attrOpen = "attribute_exists(" + attrCommitment + ") AND attribute_not_exists(" + attrSeed + ") AND attribute_not_exists(" + attrVoided + ")"

const setValue = attrValueRound + " = :beaconRound, " + attrValue + " = :beaconValue, " + attrValueSign + " = :beaconSignature"

func (s lobbyStore) State(ctx context.Context, k lobby.Key, before, statement string) error {
	condition, values := " AND attribute_not_exists("+attrStatement+")", item{":statement": str(statement)}
	if before != "" {
		condition = " AND " + attrStatement + " = :before AND attribute_not_exists(" + attrSignature + ")"
		values[":before"] = str(before)
	}
	return s.change(ctx, k, "SET "+attrStatement+" = :statement", condition, values)
}

func (s lobbyStore) Sign(ctx context.Context, k lobby.Key, statement, signature string) error {
	return s.change(ctx, k, "SET "+attrSignature+" = :signature",
		" AND "+attrStatement+" = :statement AND attribute_not_exists("+attrSignature+")",
		item{":statement": str(statement), ":signature": str(signature)})
}

func (s lobbyStore) Value(ctx context.Context, k lobby.Key, r beacon.Round) error {
	return s.change(ctx, k, "SET "+setValue, " AND attribute_exists("+attrSignature+")", roundValues(r))
}

func (s lobbyStore) Reveal(ctx context.Context, k lobby.Key, seed, orderHash string, r *beacon.Round) error {
	values := item{":seed": str(seed), ":order": str(orderHash)}
	condition := " AND attribute_exists(" + attrSignature + ") AND attribute_not_exists(" + attrValueRound + ")"
	if r != nil {
		condition = " AND attribute_exists(" + attrSignature + ") AND " + attrValueRound + " = :beaconRound AND " + attrValue + " = :beaconValue"
		decided := roundValues(*r)
		values[":beaconRound"], values[":beaconValue"] = decided[":beaconRound"], decided[":beaconValue"]
	}
	return s.change(ctx, k, "SET "+attrSeed+" = :seed, "+attrOrder+" = :order", condition, values)
}

func (s lobbyStore) Void(ctx context.Context, k lobby.Key, at int64) error {
	return s.change(ctx, k, "SET "+attrVoided+" = :at", " AND attribute_not_exists("+attrValueRound+")", item{":at": num(at)})
}

func (s lobbyStore) FixSize(ctx context.Context, k lobby.Key, entries int64) error {
	return s.changeRoom(ctx, k, attrLobbySize+" = :n, "+attrIssued+" = "+attrIssued+" + :n",
		"attribute_not_exists("+attrLobbySize+") AND "+attrIssued+" = :zero AND "+attrServing+" = :zero",
		item{":n": num(entries), ":zero": num(0)})
}

func (s lobbyStore) Start(ctx context.Context, k lobby.Key) error {
	return s.changeRoom(ctx, k, attrShuffledAt+" = :now",
		"attribute_exists("+attrLobbySize+") AND attribute_not_exists("+attrShuffledAt+")", item{})
}

// changeRoom sets attributes of the event's counters in the active round of the lobby. The SDK does
// not retry it: a change that took effect would look like one that lost.
func (s lobbyStore) changeRoom(ctx context.Context, k lobby.Key, set, condition string, values item) error {
	values[":now"], values[":round"], values[":true"] = num(s.l.now().UnixMilli()), num(int64(k.Round)), boolean(true)
	_, err := s.l.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.l.counters, Key: counterKey(k.EventID),
		UpdateExpression:          aws.String("SET " + set + ", " + attrUpdated + " = :now"),
		ConditionExpression:       aws.String(isActiveRound + " AND " + attrLobbyRound + " = :round AND " + condition),
		ExpressionAttributeValues: values,
	}, dynamo.NoRetry)
	return conditional(err)
}

// errConflict means that joins of one group were disturbed too often.
var errConflict = errors.New("the group of entries was written by others all the time")
