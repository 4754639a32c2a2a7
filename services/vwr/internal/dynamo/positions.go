package dynamo

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/failpoint"
	"urr.guru/services/vwr/internal/room"
)

// take is one visitor's wish for a position.
type take struct {
	eventID string
	round   room.Round
	visitor string
	ids     []uuid.UUID
}

// found is a record, if there is one.
type found struct {
	record room.Record
	ok     bool
}

// Take returns the visitor's record, or gives out the next position and stores it. It fails with errs.ErrOverloaded at once when the
// answer would come too late. Who gives up before the group begins costs nothing;
// once it has begun, the position is stored all the same, and the visitor finds it again.
func (s *Store) Take(ctx context.Context, eventID string, round room.Round, visitor string, ids []uuid.UUID) (room.Record, error) {
	queue := s.queue.of(eventID)
	if err := queue.enter(); err != nil {
		return room.Record{}, err
	}
	defer queue.leave()
	return s.takes.Do(ctx, eventID, take{eventID: eventID, round: round, visitor: visitor, ids: ids})
}

// groupKey is what one counter write can serve.
type groupKey struct {
	eventID string
	round   room.Round
}

// takeGroup answers the wishes of an event's group, each round by itself. The next group forms
// meanwhile.
func (s *Store) takeGroup(ctx context.Context, eventID string, in []take) ([]batch.Result[room.Record], error) {
	start := time.Now()
	defer func() { s.queue.of(eventID).served(len(in), time.Since(start)) }()
	out := make([]batch.Result[room.Record], len(in))
	groups := make(map[groupKey][]int, 1)
	for i, t := range in {
		k := groupKey{eventID, t.round}
		groups[k] = append(groups[k], i)
	}
	var work sync.WaitGroup
	for k, members := range groups {
		work.Go(func() { s.takeRound(ctx, k, in, members, out) })
	}
	work.Wait()
	return out, nil
}

// takeRound answers in[members], which are all of one round: one consistent read for those known, one write of the counter for the
// others, in the order of arrival, then their records in parallel. A crash between the two writes leaves gaps in the positions and
// nothing else.
func (s *Store) takeRound(ctx context.Context, k groupKey, in []take, members []int, out []batch.Result[room.Record]) {
	groupSize.Observe(float64(len(members)))
	known, err := s.lookup(ctx, in, members)
	var (
		fresh   []take                        // one per visitor, in the order of arrival
		wanting = make(map[uuid.UUID][]int)   // requestId → who wants it: more than one after a double click
		fail    = func(is []int, err error) { // every one of them
			for _, i := range is {
				out[i].Err = err
			}
		}
	)
	if err != nil {
		fail(members, err)
		return
	}
	for _, i := range members {
		if rec, ok := storedFor(known, in[i]); ok {
			out[i].Value = rec
			continue
		}
		id := in[i].ids[0]
		if wanting[id] == nil {
			fresh = append(fresh, in[i])
		}
		wanting[id] = append(wanting[id], i)
	}
	if len(fresh) == 0 {
		return
	}
	first, err := s.issue(ctx, k, int64(len(fresh)))
	if err != nil {
		for _, is := range wanting {
			fail(is, err)
		}
		return
	}
	failpoint.Hit("vwr.after_counter")
	s.putAll(ctx, first, fresh, func(id uuid.UUID, rec room.Record, err error) {
		for _, i := range wanting[id] {
			out[i] = batch.Result[room.Record]{Value: rec, Err: err}
		}
	})
}

// putAll stores the records of those who got the positions from first on, and reports each.
func (s *Store) putAll(ctx context.Context, first int64, fresh []take, done func(uuid.UUID, room.Record, error)) {
	records := make([]room.Record, len(fresh))
	for n, t := range fresh {
		records[n] = room.Record{
			EventID: t.eventID, Round: t.round, RequestID: t.ids[0], Position: first + int64(n), Visitor: t.visitor,
		}
	}
	var work sync.WaitGroup
	puts := make(chan struct{}, putsAtOnce)
	for part := range slices.Chunk(records, s.perWrite) {
		puts <- struct{}{}
		work.Go(func() {
			defer func() { <-puts }()
			together := len(part) > 1 && s.putTogether(ctx, part) == nil
			for _, rec := range part {
				id, err := rec.RequestID, error(nil)
				if !together {
					rec, err = s.put(ctx, rec)
				}
				done(id, rec, err)
			}
		})
	}
	work.Wait()
}

// putTogether stores new records in one transaction. When it fails, for whatever reason, each must be put by itself: one of them may
// have a twin, or all of them may be stored without our having heard of it.
func (s *Store) putTogether(ctx context.Context, records []room.Record) error {
	items := make([]types.TransactWriteItem, len(records))
	for i, rec := range records {
		items[i].Put = &types.Put{
			TableName: &s.positions, Item: fromRecord(rec, s.now()), ConditionExpression: aws.String(isNew),
		}
	}
	_, err := s.db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
	return err
}

// isNew is the condition of a record that must not be there yet.
const isNew = "attribute_not_exists(" + attrEvent + ")"

// put stores a new record. Of two that race for one visitor at two replicas the first wins, and both return it.
func (s *Store) put(ctx context.Context, rec room.Record) (room.Record, error) {
	_, err := s.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName:                           &s.positions,
		Item:                                fromRecord(rec, s.now()),
		ConditionExpression:                 aws.String(isNew),
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	})
	if err == nil {
		return rec, nil
	}
	if twin, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		stored, err := toRecord(twin.Item)
		if stored != rec { // else it is our own, from an attempt that we did not hear of
			gaps.Inc()
		}
		return stored, unavailable(err)
	}
	gaps.Inc()
	return room.Record{}, unavailable(err)
}

// issue gives out n positions and returns the first.
func (s *Store) issue(ctx context.Context, k groupKey, n int64) (int64, error) {
	if err := s.pacer.wait(ctx, k.eventID); err != nil {
		return 0, unavailable(err)
	}
	got, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.counters,
		Key:                 counterKey(k.eventID),
		UpdateExpression:    aws.String("ADD " + attrIssued + " :n SET " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(inRound),
		ExpressionAttributeValues: item{
			":n": num(n), ":now": num(s.now().UnixMilli()), ":round": num(int64(k.round)), ":true": boolean(true),
		},
		ReturnValues: types.ReturnValueUpdatedNew,
	}, dynamo.NoRetry)
	counterWrites.WithLabelValues("position").Inc()
	if err != nil {
		return 0, conditional(err)
	}
	r := reader{item: got.Attributes}
	last := r.num(attrIssued)
	if r.err != nil || last < n {
		return 0, unavailable(errors.Join(errors.New("the counter's answer makes no sense"), r.err))
	}
	return last - n + 1, nil
}

func storedFor(known map[uuid.UUID]room.Record, t take) (room.Record, bool) {
	for _, id := range t.ids {
		if rec, ok := known[id]; ok {
			return rec, true
		}
	}
	return room.Record{}, false
}

func (s *Store) lookup(ctx context.Context, in []take, members []int) (map[uuid.UUID]room.Record, error) {
	var ids []positionID
	for _, i := range members {
		for _, id := range in[i].ids {
			ids = append(ids, positionID{in[i].eventID, id})
		}
	}
	records, err := s.positionsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	known := make(map[uuid.UUID]room.Record, len(records))
	for id, rec := range records {
		known[id.id] = rec
	}
	return known, nil
}

// Find is a consistent read of one record; concurrent calls share reads.
func (s *Store) Find(ctx context.Context, eventID string, id uuid.UUID) (room.Record, bool, error) {
	got, err := s.finds.Do(ctx, positionID{eventID, id})
	return got.record, got.ok, err
}

func (s *Store) findGroup(ctx context.Context, ids []positionID) ([]found, error) {
	records, err := s.positionsOf(ctx, ids)
	if err != nil {
		return nil, err
	}
	out := make([]found, len(ids))
	for i, id := range ids {
		out[i].record, out[i].ok = records[id]
	}
	return out, nil
}

func (s *Store) positionsOf(ctx context.Context, ids []positionID) (map[positionID]room.Record, error) {
	seen := make(map[positionID]struct{}, len(ids))
	var keys []item
	for _, id := range ids {
		if _, twice := seen[id]; !twice {
			seen[id] = struct{}{}
			keys = append(keys, positionKey(id.eventID, id.id))
		}
	}
	items, err := s.batchGet(ctx, s.positions, keys)
	if err != nil {
		return nil, err
	}
	records := make(map[positionID]room.Record, len(items))
	for _, it := range items {
		rec, err := toRecord(it)
		if err != nil {
			return nil, unavailable(err)
		}
		records[positionID{rec.EventID, rec.RequestID}] = rec
	}
	return records, nil
}
