package dynamo

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

// Read returns an event's counters, by a consistent read that begins after the call of Read.
// Concurrent calls share a read.
func (s *Store) Read(ctx context.Context, eventID string) (room.Counters, bool, error) {
	got, err := s.reads.Do(ctx, eventID)
	return got.counters, got.ok, err
}

func (s *Store) readCounterGroup(ctx context.Context, ids []string) ([]readResult, error) {
	counters, err := s.ReadMany(ctx, ids)
	if err != nil {
		return nil, err
	}
	byID := make(map[string]room.Counters, len(counters))
	for _, c := range counters {
		byID[c.EventID] = c
	}
	out := make([]readResult, len(ids))
	for i, id := range ids {
		out[i].counters, out[i].ok = byID[id]
	}
	return out, nil
}

// ReadMany reads the counters of several events consistently. A repeated id is read once.
func (s *Store) ReadMany(ctx context.Context, eventIDs []string) ([]room.Counters, error) {
	unique := slices.Clone(eventIDs)
	slices.Sort(unique)
	_, counters, err := s.readItems(ctx, slices.Compact(unique))
	return counters, err
}

// ReadActive returns the counters of the known events and of all active ones. It reads the known
// events together with the registry of active events. If the registry has more events, it reads
// these by a second call.
func (s *Store) ReadActive(ctx context.Context, known []string) ([]room.Counters, error) {
	registry, counters, err := s.readItems(ctx, append([]string{registryID}, known...))
	if err != nil {
		return nil, err
	}
	entered := slices.DeleteFunc(registry, func(id string) bool { return slices.Contains(known, id) })
	if len(entered) == 0 {
		return counters, nil
	}
	_, more, err := s.readItems(ctx, entered)
	return append(counters, more...), err
}

// readItems reads items of the counters table and returns the registry separately.
func (s *Store) readItems(ctx context.Context, ids []string) (registry []string, counters []room.Counters, err error) {
	keys := make([]dynamo.Item, len(ids))
	for i, id := range ids {
		keys[i] = counterKey(id)
	}
	items, err := s.batchGet(ctx, s.counters, keys)
	if err != nil {
		return nil, nil, err
	}
	for _, it := range items {
		c, err := toCounters(it)
		if err != nil {
			return nil, nil, toUnavailable(err)
		}
		if c.EventID != registryID {
			counters = append(counters, c)
		} else if v, ok := it[attrRegistry].(*types.AttributeValueMemberSS); ok {
			registry = slices.Clone(v.Value)
		}
	}
	return registry, counters, nil
}

// isActiveRound is the condition that the event's stored round is :round and active.
const isActiveRound = attrRound + " = :round AND " + attrActive + " = :true"

func (s *Store) SetServing(ctx context.Context, c room.Counters, to int64) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.counters,
		Key:                 counterKey(c.EventID),
		UpdateExpression:    aws.String("SET " + attrServing + " = :to, " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(isActiveRound + " AND " + attrServing + " = :from AND " + attrIssued + " >= :to AND " + isShuffled),
		ExpressionAttributeValues: dynamo.Item{
			":from": dynamo.Number(c.Serving), ":to": dynamo.Number(to), ":now": dynamo.Number(s.now().UnixMilli()),
			":round": dynamo.Number(int64(c.Round)), ":true": dynamo.Bool(true),
		},
	}, dynamo.NoRetry)
	counterWrites.WithLabelValues("serving").Inc()
	return conditionalError(err)
}

// Start stores a new round of an event. It replaces the whole item, so that nothing of an earlier
// round remains, not even attributes of another release that this replica does not know.
func (s *Store) Start(ctx context.Context, next room.Counters, earlier room.Round, opening *room.LobbyOpening) error {
	put := &types.Put{TableName: &s.counters, Item: s.newRoundItem(next), ConditionExpression: aws.String("attribute_not_exists(" + attrRound + ")")}
	if earlier != 0 {
		put.ConditionExpression = aws.String(attrRound + " = :earlier AND " + attrActive + " = :false")
		put.ExpressionAttributeValues = dynamo.Item{":earlier": dynamo.Number(int64(earlier)), ":false": dynamo.Bool(false)}
	}
	var more []types.TransactWriteItem
	if opening != nil {
		more = s.lobbyOpeningWrites(next, opening)
	}
	return s.writeWithRegistry(ctx, types.TransactWriteItem{Put: put}, "ADD", next.EventID, more...)
}

// newRoundItem returns the stored item of a round that starts.
func (s *Store) newRoundItem(next room.Counters) dynamo.Item {
	it := fromSettings(next.Settings)
	it[attrEvent] = dynamo.String(next.EventID)
	it[attrIssued], it[attrServing] = dynamo.Number(0), dynamo.Number(0)
	it[attrActive], it[attrRound] = dynamo.Bool(true), dynamo.Number(int64(next.Round))
	it[attrUpdated] = dynamo.Number(s.now().UnixMilli())
	if l := next.Lobby; l.Exists() {
		it[attrLobbyOpensAt], it[attrLobbyClosesAt], it[attrStartsAt] = dynamo.Number(l.OpensAt), dynamo.Number(l.ClosesAt), dynamo.Number(l.StartsAt)
	}
	return it
}

func (s *Store) Stop(ctx context.Context, eventID string, round room.Round) error {
	return s.writeWithRegistry(ctx, types.TransactWriteItem{Update: &types.Update{
		TableName:           &s.counters,
		Key:                 counterKey(eventID),
		UpdateExpression:    aws.String("SET " + attrActive + " = :false, " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(isActiveRound),
		ExpressionAttributeValues: dynamo.Item{
			":false": dynamo.Bool(false), ":true": dynamo.Bool(true), ":round": dynamo.Number(int64(round)), ":now": dynamo.Number(s.now().UnixMilli()),
		},
	}}, "DELETE", eventID)
}

// writeWithRegistry writes an event's item, the registry of active events, and the writes in more,
// in one transaction. registryAction ADD adds the event to the registry, DELETE removes it.
func (s *Store) writeWithRegistry(ctx context.Context, event types.TransactWriteItem, registryAction, eventID string, more ...types.TransactWriteItem) error {
	_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: append([]types.TransactWriteItem{
		event, {Update: s.registryUpdate(registryID, registryAction, eventID)},
	}, more...)})
	return conditionalError(err)
}

// registryUpdate returns the update that adds a member to the registry with the given id (action
// ADD), or removes it (DELETE).
func (s *Store) registryUpdate(id, action, member string) *types.Update {
	return &types.Update{
		TableName:                 &s.counters,
		Key:                       counterKey(id),
		UpdateExpression:          aws.String(action + " #events :event"),
		ExpressionAttributeNames:  map[string]string{"#events": attrRegistry},
		ExpressionAttributeValues: dynamo.Item{":event": set(member)},
	}
}

func (s *Store) Configure(ctx context.Context, eventID string, round room.Round, settings room.Settings) error {
	update, names := "SET "+attrUpdated+" = :now", make(map[string]string)
	values := dynamo.Item{":round": dynamo.Number(int64(round)), ":true": dynamo.Bool(true), ":now": dynamo.Number(s.now().UnixMilli())}
	for name, v := range fromSettings(settings) {
		update += ", #" + name + " = :" + name // placeholders, as a name may be a reserved word
		names["#"+name], values[":"+name] = name, v
	}
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.counters,
		Key:                       counterKey(eventID),
		UpdateExpression:          &update,
		ConditionExpression:       aws.String(isActiveRound),
		ExpressionAttributeNames:  names,
		ExpressionAttributeValues: values,
	})
	return conditionalError(err)
}

func fromSettings(s room.Settings) dynamo.Item {
	return dynamo.Item{
		attrBatch: dynamo.Number(s.Batch), attrInterval: dynamo.Number(s.Interval.Milliseconds()), attrInlet: dynamo.String(string(s.Inlet)),
		attrMaxInFlight: dynamo.Number(s.MaxInFlight), attrProofOfWork: dynamo.Number(s.ProofOfWork), attrSignIn: dynamo.Bool(s.SignIn),
		attrNext: dynamo.String(string(s.Next)), attrExpected: dynamo.Number(s.Expected), attrAskRate: dynamo.Number(s.AskRate),
	}
}
