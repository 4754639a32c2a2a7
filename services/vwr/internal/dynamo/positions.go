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

	visitor string
	ids     []uuid.UUID
}

func (t takeRequest) key(id uuid.UUID) positionID { return positionIDOf(t.eventID, id) }

// TakePositions returns the records of the visitors who have one, and stores new positions for the
// others. A visitor who would wait too long gets errs.ErrOverloaded at once, and no position. One
// whose record is throttled for long gets it too, and joins the write by the next call.
// Concurrent calls form groups: a call that is cancelled before its group starts has no effect. If
// it is cancelled later, the position is stored nevertheless, and the visitor's next call returns it.
func (s *Store) TakePositions(ctx context.Context, c room.Counters, takers []room.Taker) []room.Outcome[room.Record] {
	issued, err := s.issueInGroups(ctx, c, takers)
	out := slices.Repeat([]room.Outcome[room.Record]{{Err: err}}, len(takers))
	for i, r := range issued {
		if out[i].Err = r.Err; r.Err == nil {
			out[i] = r.Value.await(ctx)
		}
	}
	return out
}

// issueInGroups returns the records of the takers, of which some may not be stored yet. It may leave
// out the last takers, and then returns their error.
func (s *Store) issueInGroups(ctx context.Context, c room.Counters, takers []room.Taker) ([]batch.Result[*newRecord], error) {
	backlog := s.backlogs.forEvent(c.EventID)
	n, err := backlog.enter(len(takers))
	defer backlog.leave(n)
	requests := make([]takeRequest, n)
	for i, t := range takers[:n] {
		requests[i] = takeRequest{roundKey: roundKey{c.EventID, c.Round}, visitor: t.Visitor, ids: t.IDs}
	}
	return s.takes.DoAll(ctx, c.EventID, requests), err
}

// roundKey identifies a round of an event. Requests of one round share a write of the counter.
type roundKey struct {
	eventID string
	round   room.Round
}

// takePositions issues positions to a group of visitors of one event, for each round separately.
func (s *Store) takePositions(ctx context.Context, eventID string, in []takeRequest) ([]batch.Result[*newRecord], error) {
	start := time.Now()
	defer func() { s.backlogs.forEvent(eventID).observeGroup(len(in), time.Since(start)) }()
	out := make([]batch.Result[*newRecord], len(in))
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

// assignRound sets the results of the requests in[i] whose index i is in members, all of one round.
// Requests whose record is under way join it. One consistent read finds stored records. One write of
// the counter issues positions for the other requests in order of arrival, and their records are
// queued: the next group need not wait until they are stored. A crash in between leaves only gaps.
func (s *Store) assignRound(ctx context.Context, k roundKey, in []takeRequest, members []int, out []batch.Result[*newRecord]) {
	groupSize.Observe(float64(len(members)))
	// This must precede the read, which finds those whose write ends in between.
	members = slices.DeleteFunc(members, func(i int) bool {
		out[i].Value = s.writes.find(k, in[i].ids)
		return out[i].Value != nil
	})
	known, unread := s.lookUpRecords(ctx, in, members)
	var unassigned []*newRecord             // one per visitor, in order of arrival
	added := make(map[uuid.UUID]*newRecord) // the same by request id; a double click finds the first
	for _, i := range members {
		if rec, ok := findStored(known, in[i]); ok {
			out[i].Value = storedRecord(rec)
			continue
		}
		if out[i].Err = unreadError(unread, in[i]); out[i].Err != nil {
			continue
		}
		id := in[i].ids[0]
		if added[id] == nil {
			if out[i].Err = s.writes.refuse(k.eventID, id, len(unassigned)); out[i].Err != nil {
				continue
			}
			added[id] = newRecordFor(in[i])
			unassigned = append(unassigned, added[id])
		}
		out[i].Value = added[id]
	}
	if len(unassigned) > 0 {
		s.issueRecords(ctx, k, unassigned)
	}
}

// issueRecords gives consecutive positions to the records, and queues them.
func (s *Store) issueRecords(ctx context.Context, k roundKey, records []*newRecord) {
	failpoint.Hit("vwr.before_counter")
	first, err := s.issuePositions(ctx, k, int64(len(records)))
	if err == nil {
		failpoint.Hit("vwr.after_counter")
	}
	now := time.Now()
	for n, r := range records {
		if r.Position, r.issued = first+int64(n), now; err != nil {
			r.finish(room.Outcome[room.Record]{Err: err})
		}
	}
	if err == nil {
		s.writes.add(context.WithoutCancel(ctx), k, records)
	}
}

// storeRecords stores new records by one call, and sets the result of each. A record that another
// call has stored before, maybe at another replica, is read: it is the visitor's.
func (s *Store) storeRecords(ctx context.Context, records []*newRecord) {
	ctx, cancel := context.WithTimeout(ctx, insertTimeout)
	defer cancel()
	items, now := make([]dynamo.Item, len(records)), s.now()
	for i, r := range records {
		items[i] = fromRecord(r.Record, now)
	}
	for i, err := range dynamo.InsertNew(ctx, s.db, s.positions, items) {
		records[i].err = err
	}
	failpoint.Hit("vwr.record_stored")
	known, err := s.readExisting(ctx, records)
	for _, r := range records {
		if !errors.Is(r.err, dynamo.ErrExists) {
			r.stored = r.Record
			continue
		}
		r.stored, r.err = known[r.key()], err
		if err == nil && r.stored.Position == 0 {
			r.err = fmt.Errorf("the record of position %d was there and is not", r.Position)
		}
	}
	failpoint.Hit("vwr.records_stored")
}

// readExisting reads those records that were stored before by other calls. If two replicas store a
// record for one visitor, both return the first one.
func (s *Store) readExisting(ctx context.Context, records []*newRecord) (map[positionID]room.Record, error) {
	var ids []positionID
	for _, r := range records {
		if errors.Is(r.err, dynamo.ErrExists) {
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
		ExpressionAttributeValues: dynamo.Item{
			":n": dynamo.Number(n), ":now": dynamo.Number(s.now().UnixMilli()), ":round": dynamo.Number(int64(k.round)), ":true": dynamo.Bool(true),
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
