package dynamo

import (
	"context"
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

// Read reads one event consistently; the read begins after the call. Concurrent calls share reads.
func (s *Store) Read(ctx context.Context, eventID string) (room.Counters, bool, error) {
	got, err := s.reads.Do(ctx, eventID)
	return got.counters, got.ok, err
}

func (s *Store) readGroup(ctx context.Context, ids []string) ([]readResult, error) {
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

// ReadMany reads events consistently; duplicate ids are read once.
func (s *Store) ReadMany(ctx context.Context, eventIDs []string) ([]room.Counters, error) {
	unique := slices.Clone(eventIDs)
	slices.Sort(unique)
	_, counters, err := s.readItems(ctx, slices.Compact(unique))
	return counters, err
}

// ReadActive reads the known events with the registry. Other events in the registry cost a second
// read.
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
	keys := make([]item, len(ids))
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
			return nil, nil, unavailable(err)
		}
		if c.EventID != registryID {
			counters = append(counters, c)
		} else if v, ok := it[attrRegistry].(*types.AttributeValueMemberSS); ok {
			registry = slices.Clone(v.Value)
		}
	}
	return registry, counters, nil
}

// isActiveRound is the condition of writes to one round while it is active.
const isActiveRound = attrRound + " = :round AND " + attrActive + " = :true"

func (s *Store) SetServing(ctx context.Context, c room.Counters, to int64) error {
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.counters,
		Key:                 counterKey(c.EventID),
		UpdateExpression:    aws.String("SET " + attrServing + " = :to, " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(isActiveRound + " AND " + attrServing + " = :from AND " + attrIssued + " >= :to AND " + isShuffled),
		ExpressionAttributeValues: item{
			":from": num(c.Serving), ":to": num(to), ":now": num(s.now().UnixMilli()),
			":round": num(int64(c.Round)), ":true": boolean(true),
		},
	}, dynamo.NoRetry)
	counterWrites.WithLabelValues("serving").Inc()
	return conditionalError(err)
}

// Parts of the update that starts a round.
const (
	setShards    = ", " + attrShards + " = :shards"
	removeShards = ", " + attrShards // after the REMOVE of a lobby's attributes
)

func (s *Store) Start(ctx context.Context, next room.Counters, earlier room.Round, opening *room.LobbyOpening) error {
	condition, values := "attribute_not_exists("+attrRound+")", settingValues(next.Settings)
	if earlier != 0 {
		condition = attrRound + " = :earlier AND " + attrActive + " = :false"
		values[":earlier"], values[":false"] = num(int64(earlier)), boolean(false)
	}
	values[":round"], values[":zero"] = num(int64(next.Round)), num(0)
	values[":now"], values[":true"] = num(s.now().UnixMilli()), boolean(true)
	update := "SET " + attrIssued + " = :zero, " + attrServing + " = :zero, " +
		attrActive + " = :true, " + attrRound + " = :round, " + attrUpdated + " = :now, " + setSettings
	removed := removeShards
	if next.Shards > 1 { // an item of the default layout has no attribute for it
		update += setShards
		values[":shards"], removed = num(int64(next.Shards)), ""
	}
	var more []types.TransactWriteItem
	if opening == nil {
		update += removeLobby + removed
	} else {
		update += setLobby + removeProgress + removed
		maps.Copy(values, lobbyValues(next.Lobby))
		more = s.lobbyOpeningWrites(next, opening)
	}
	return s.writeWithRegistry(ctx, &types.Update{
		TableName:                 &s.counters,
		Key:                       counterKey(next.EventID),
		UpdateExpression:          &update,
		ConditionExpression:       &condition,
		ExpressionAttributeNames:  settingNames,
		ExpressionAttributeValues: values,
	}, "ADD", next.EventID, more...)
}

func (s *Store) Stop(ctx context.Context, eventID string, round room.Round) error {
	return s.writeWithRegistry(ctx, &types.Update{
		TableName:           &s.counters,
		Key:                 counterKey(eventID),
		UpdateExpression:    aws.String("SET " + attrActive + " = :false, " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(isActiveRound),
		ExpressionAttributeValues: item{
			":false": boolean(false), ":true": boolean(true), ":round": num(int64(round)), ":now": num(s.now().UnixMilli()),
		},
	}, "DELETE", eventID)
}

// writeWithRegistry writes an event's item, its registry entry and more in one transaction.
// registryAct is ADD or DELETE.
func (s *Store) writeWithRegistry(ctx context.Context, event *types.Update, registryAct, eventID string, more ...types.TransactWriteItem) error {
	_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: append([]types.TransactWriteItem{
		{Update: event}, {Update: s.registryUpdate(registryID, registryAct, eventID)},
	}, more...)})
	return conditionalError(err)
}

// registryUpdate adds a member to a registry (ADD), or removes it (DELETE).
func (s *Store) registryUpdate(id, act, member string) *types.Update {
	return &types.Update{
		TableName:                 &s.counters,
		Key:                       counterKey(id),
		UpdateExpression:          aws.String(act + " #events :event"),
		ExpressionAttributeNames:  map[string]string{"#events": attrRegistry},
		ExpressionAttributeValues: item{":event": set(member)},
	}
}

func (s *Store) Configure(ctx context.Context, eventID string, round room.Round, settings room.Settings) error {
	values := settingValues(settings)
	values[":round"], values[":true"], values[":now"] = num(int64(round)), boolean(true), num(s.now().UnixMilli())
	_, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &s.counters,
		Key:                       counterKey(eventID),
		UpdateExpression:          aws.String("SET " + attrUpdated + " = :now, " + setSettings),
		ConditionExpression:       aws.String(isActiveRound),
		ExpressionAttributeNames:  settingNames,
		ExpressionAttributeValues: values,
	})
	return conditionalError(err)
}

// setSettings is the settings' part of an update expression. It uses placeholders because some
// attribute names (batch) may be reserved words.
const setSettings = "#batch = :batch, #interval = :interval, #inlet = :inlet, #max = :max, #proof = :proof, #next = :next"

var settingNames = map[string]string{
	"#batch": attrBatch, "#interval": attrInterval, "#inlet": attrInlet, "#max": attrMaxInFlight, "#proof": attrProofOfWork,
	"#next": attrNext,
}

func settingValues(s room.Settings) item {
	return item{
		":batch": num(s.Batch), ":interval": num(s.Interval.Milliseconds()),
		":inlet": str(string(s.Inlet)), ":max": num(s.MaxInFlight), ":proof": num(s.ProofOfWork), ":next": str(string(s.Next)),
	}
}
