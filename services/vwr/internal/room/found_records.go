package room

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/maypok86/otter/v2"

	"urr.guru/pkg/readcache"
)

const (
	maxFound = 50_000 // of the records kept; each needs about 400 bytes
	// foundFor is how long a record is kept, as in the store. It never changes within its round.
	foundFor = 24 * time.Hour
	// missingFor is how long it is kept that a record does not exist, unless this replica assigns it.
	missingFor = time.Second
)

// foundRecords keeps the records that were read or assigned, so that a visitor who polls without a
// ticket costs one read.
type foundRecords struct {
	store PositionStore
	kept  *otter.Cache[foundKey, foundRecord]
}

type foundKey struct {
	eventID string
	round   Round
	id      uuid.UUID
}

type foundRecord struct {
	Record

	exists bool
}

func newFoundRecords(store PositionStore, now func() time.Time) foundRecords {
	return foundRecords{store: store, kept: otter.Must(&otter.Options[foundKey, foundRecord]{
		MaximumSize: maxFound, Clock: readcache.Clock(now),
		ExpiryCalculator: otter.ExpiryWritingFunc(func(e otter.Entry[foundKey, foundRecord]) time.Duration {
			if e.Value.exists {
				return foundFor
			}
			return missingFor
		}),
	})}
}

// find returns the record that is kept, or reads it. A failed read is not kept.
func (f foundRecords) find(ctx context.Context, c Counters, id uuid.UUID) (rec Record, found bool, err error) {
	key := foundKey{c.EventID, c.Round, id}
	if kept, ok := f.kept.GetIfPresent(key); ok {
		return kept.Record, kept.exists, nil
	}
	if rec, found, err = f.store.FindRecord(ctx, c, id); err != nil {
		return rec, false, err
	}
	// If the record was assigned during the read, that one stays.
	kept, _ := f.kept.SetIfAbsent(key, foundRecord{rec, found})
	return kept.Record, kept.exists, nil
}

// keep keeps a record that was assigned.
func (f foundRecords) keep(rec Record) {
	f.kept.Set(foundKey{rec.EventID, rec.Round, rec.RequestID}, foundRecord{rec, true})
}
