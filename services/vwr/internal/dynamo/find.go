package dynamo

import (
	"context"

	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

// findResult is what a search for a visitor's record found; ok is false when there is none.
type findResult struct {
	record room.Record
	ok     bool
}

func (s *Store) FindRecord(ctx context.Context, c room.Counters, id uuid.UUID) (room.Record, bool, error) {
	got, err := s.finds.Do(ctx, positionIDOf(c.EventID, id))
	return got.record, got.ok, err
}

// findRecordGroup reads the records of a group of visitors. A record that cannot be read, as when its
// partition is throttled, fails only those who asked for it.
func (s *Store) findRecordGroup(ctx context.Context, ids []positionID) ([]batch.Result[findResult], error) {
	records, unread := s.readEach(ctx, ids)
	out := make([]batch.Result[findResult], len(ids))
	for i, id := range ids {
		out[i].Value.record, out[i].Value.ok = records[id]
		out[i].Err = unread[id]
	}
	return out, nil
}

// readRecords reads all these records, or fails.
func (s *Store) readRecords(ctx context.Context, ids []positionID) (map[positionID]room.Record, error) {
	records, unread := s.readEach(ctx, ids)
	for _, id := range ids {
		if err := unread[id]; err != nil {
			return nil, err
		}
	}
	return records, nil
}

// readEach reads records consistently. unread has the errors of those that could not be read.
func (s *Store) readEach(ctx context.Context, ids []positionID) (records map[positionID]room.Record, unread map[positionID]error) {
	added := make(map[positionID]bool, len(ids))
	var keys []dynamo.Item
	for _, id := range ids {
		if !added[id] {
			added[id] = true
			keys = append(keys, positionKey(id))
		}
	}
	items, left, err := dynamo.BatchGetPartial(ctx, s.db, s.positions, keys)
	records, unread = make(map[positionID]room.Record, len(items)), make(map[positionID]error)
	for _, key := range left {
		unread[positionOf(key)] = toUnavailable(err)
	}
	for _, it := range items {
		rec, err := toRecord(it)
		if id := positionOf(it); err != nil {
			unread[id] = toUnavailable(err)
		} else {
			records[id] = rec
		}
	}
	return records, unread
}

// positionOf returns the key of an item of the positions table.
func positionOf(it dynamo.Item) positionID {
	r := dynamo.Reader{Item: it}
	id, _ := uuid.Parse(r.String(attrRequest)) // it was read by a key that is one
	return positionID{r.String(attrEvent), id}
}

// unreadError returns the error with which one of the records of a request could not be read.
func unreadError(unread map[positionID]error, t takeRequest) error {
	for _, id := range t.ids {
		if err := unread[t.key(id)]; err != nil {
			return err
		}
	}
	return nil
}
