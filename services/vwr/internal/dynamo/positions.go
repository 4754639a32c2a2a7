package dynamo

import (
	"context"
	"errors"
	"fmt"
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

// takeRequest is one visitor's request for a position.
type takeRequest struct {
	roundKey

	shards  int // of the round
	visitor string
	ids     []uuid.UUID
}

func (t takeRequest) key(id uuid.UUID) positionID { return shardedPositionID(t.eventID, t.shards, id) }

// TakePositions returns the records of the visitors who have one, and stores new positions for the
// others. A visitor who would wait too long gets errs.ErrOverloaded at once. Concurrent calls form
// groups: a call that is cancelled before its group starts has no effect. If it is cancelled later,
// the position is stored nevertheless, and the visitor's next call returns it.
func (s *Store) TakePositions(ctx context.Context, c room.Counters, takers []room.Taker) []room.Outcome[room.Record] {
	backlog := s.backlogs.forEvent(c.EventID)
	n, err := backlog.enter(len(takers))
	defer backlog.leave(n)
	requests := make([]takeRequest, n)
	for i, t := range takers[:n] {
		requests[i] = takeRequest{roundKey: roundKey{c.EventID, c.Round}, shards: c.Shards, visitor: t.Visitor, ids: t.IDs}
	}
	out := slices.Repeat([]room.Outcome[room.Record]{{Err: err}}, len(takers))
	for i, taken := range s.takes.DoAll(ctx, c.EventID, requests) {
		out[i] = room.Outcome[room.Record](taken)
	}
	return out
}

// roundKey identifies a round of an event. Requests of one round share a write of the counter.
type roundKey struct {
	eventID string
	round   room.Round
}

// takePositions assigns positions to a group of visitors of one event, for each round separately.
func (s *Store) takePositions(ctx context.Context, eventID string, in []takeRequest) ([]batch.Result[room.Record], error) {
	start := time.Now()
	defer func() { s.backlogs.forEvent(eventID).observeGroup(len(in), time.Since(start)) }()
	out := make([]batch.Result[room.Record], len(in))
	groups := make(map[roundKey][]int, 1)
	for i, t := range in {
		groups[t.roundKey] = append(groups[t.roundKey], i)
	}
	var work sync.WaitGroup
	for k, members := range groups {
		work.Go(func() { s.assignRound(ctx, k, in, members, out) })
	}
	work.Wait()
	return out, nil
}

// assignRound answers the requests in[i] whose index i is in members, all of one round. One
// consistent read finds stored records. One write of the counter issues positions for the other
// requests in order of arrival. Then their records are written, 25 per call. A crash in between
// leaves only gaps.
func (s *Store) assignRound(ctx context.Context, k roundKey, in []takeRequest, members []int, out []batch.Result[room.Record]) {
	groupSize.Observe(float64(len(members)))
	known, unread := s.lookUpRecords(ctx, in, members)
	fail := func(indexes []int, err error) {
		for _, i := range indexes {
			out[i].Err = err
		}
	}
	var unassigned []takeRequest         // one per visitor, in order of arrival
	waiters := make(map[uuid.UUID][]int) // indexes by request id; a double click gives two
	for _, i := range members {
		if rec, ok := findStored(known, in[i]); ok {
			out[i].Value = rec
			continue
		}
		if out[i].Err = unreadError(unread, in[i]); out[i].Err != nil {
			continue
		}
		id := in[i].ids[0]
		if waiters[id] == nil {
			unassigned = append(unassigned, in[i])
		}
		waiters[id] = append(waiters[id], i)
	}
	if len(unassigned) == 0 {
		return
	}
	failpoint.Hit("vwr.before_counter")
	first, err := s.issuePositions(ctx, k, int64(len(unassigned)))
	if err != nil {
		for _, indexes := range waiters {
			fail(indexes, err)
		}
		return
	}
	failpoint.Hit("vwr.after_counter")
	s.putRecords(ctx, first, unassigned, func(id uuid.UUID, rec room.Record, err error) {
		for _, i := range waiters[id] {
			out[i] = batch.Result[room.Record]{Value: rec, Err: err}
		}
	})
	failpoint.Hit("vwr.records_stored")
}

// newRecord is a record to store, with its round's number of shards and the result of storing it.
type newRecord struct {
	room.Record

	shards int
	result error
}

func (r newRecord) item(now time.Time) item { return fromRecord(r.Record, r.shards, now) }

func (r newRecord) key() positionID { return shardedPositionID(r.EventID, r.shards, r.RequestID) }

// putRecords stores a record for each unassigned request, with consecutive positions beginning at
// first, and calls done for each.
func (s *Store) putRecords(ctx context.Context, first int64, unassigned []takeRequest, done func(uuid.UUID, room.Record, error)) {
	records := make([]newRecord, len(unassigned))
	for n, t := range unassigned {
		records[n] = newRecord{shards: t.shards, Record: room.Record{
			EventID: t.eventID, Round: t.round, RequestID: t.ids[0], Position: first + int64(n), Visitor: t.visitor,
		}}
	}
	dynamo.EachChunk(records, dynamo.MaxInsert, func(chunk []newRecord) {
		s.insertRecords(ctx, chunk)
		failpoint.Hit("vwr.record_stored")
	})
	known, err := s.readExisting(ctx, records)
	for _, r := range records {
		switch {
		case r.result == nil:
			done(r.RequestID, r.Record, nil)
		case !errors.Is(r.result, dynamo.ErrExists):
			gaps.Inc()
			done(r.RequestID, room.Record{}, toUnavailable(r.result))
		default:
			stored, found := known[r.key()]
			readErr := err
			if err == nil && !found {
				readErr = fmt.Errorf("the record of position %d was there and is not", r.Position)
			}
			if found && stored != r.Record { // else the response to an earlier attempt was lost
				gaps.Inc()
			}
			done(r.RequestID, stored, toUnavailable(readErr))
		}
	}
}

// insertRecords stores new records by one call, and sets the result of each.
func (s *Store) insertRecords(ctx context.Context, records []newRecord) {
	items, now := make([]item, len(records)), s.now()
	for i, r := range records {
		items[i] = r.item(now)
	}
	for i, err := range dynamo.InsertNew(ctx, s.db, s.positions, items) {
		records[i].result = err
	}
}

// readExisting reads those records that were stored before by other calls. If two replicas store a
// record for one visitor, both return the first one.
func (s *Store) readExisting(ctx context.Context, records []newRecord) (map[positionID]room.Record, error) {
	var ids []positionID
	for _, r := range records {
		if errors.Is(r.result, dynamo.ErrExists) {
			ids = append(ids, r.key())
		}
	}
	if len(ids) == 0 {
		return nil, nil //nolint:nilnil // a nil map has no records
	}
	return s.readRecords(ctx, ids)
}

// issuePositions issues n positions and returns the first.
func (s *Store) issuePositions(ctx context.Context, k roundKey, n int64) (int64, error) {
	if err := s.pacer.wait(ctx, k.eventID); err != nil {
		return 0, toUnavailable(err)
	}
	got, err := s.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:           &s.counters,
		Key:                 counterKey(k.eventID),
		UpdateExpression:    aws.String("ADD " + attrIssued + " :n SET " + attrUpdated + " = :now"),
		ConditionExpression: aws.String(isActiveRound + " AND " + isSized),
		ExpressionAttributeValues: item{
			":n": num(n), ":now": num(s.now().UnixMilli()), ":round": num(int64(k.round)), ":true": boolean(true),
		},
		ReturnValues: types.ReturnValueUpdatedNew,
	}, dynamo.NoRetry)
	counterWrites.WithLabelValues("position").Inc()
	if err != nil {
		return 0, conditionalError(err)
	}
	r := dynamo.Reader{Item: got.Attributes}
	last := r.Number(attrIssued)
	if r.Err() != nil || last < n {
		return 0, toUnavailable(errors.Join(errors.New("the counter's answer makes no sense"), r.Err()))
	}
	return last - n + 1, nil
}

func findStored(known map[positionID]room.Record, t takeRequest) (room.Record, bool) {
	for _, id := range t.ids {
		if rec, ok := known[t.key(id)]; ok {
			return rec, true
		}
	}
	return room.Record{}, false
}

// lookUpRecords reads the records of the requests in[i] whose index i is in members. unread has the
// errors of those that could not be read.
func (s *Store) lookUpRecords(ctx context.Context, in []takeRequest, members []int) (known map[positionID]room.Record, unread map[positionID]error) {
	var ids []positionID
	for _, i := range members {
		for _, id := range in[i].ids {
			ids = append(ids, in[i].key(id))
		}
	}
	return s.readEach(ctx, ids)
}
