// Package dynamo stores tier 1 in two DynamoDB tables. `{prefix}-vwr-counters` has an item per
// event and the registry of active events. `{prefix}-vwr-positions` has an item per visitor.
// Concurrent calls are batched.
package dynamo

import (
	"context"
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

const (
	// minCounterInterval is the shortest time between two writes by which a replica issues positions
	// of one event. All replicas share the item's limit of 1,000 writes/s.
	minCounterInterval = 25 * time.Millisecond
	maxReadsPerBatch   = 1000             // the most calls that share one read
	readTimeout        = 3 * time.Second  // the time limit of a shared read; callers may wait less
	maxTakesPerGroup   = 500              // the most assigns that share one counter write
	takesTimeout       = 10 * time.Second // the time limit of a group of assigns, or of joins
	// insertTimeout is the time limit of a call that stores records. It is longer than the callers
	// wait: then an issued position is stored late, but not lost, and the visitor's next call finds it.
	insertTimeout = 10 * time.Second
	// maxEvents is the most events with assigns in progress. Only active events count.
	maxEvents = 4096
)

var (
	_ room.RoomStore     = (*Store)(nil)
	_ room.CounterSource = (*Store)(nil)
	_ room.PositionStore = (*Store)(nil)
)

// Store accesses both tables. It is safe for concurrent use.
type Store struct {
	db        *dynamodb.Client
	counters  string
	positions string
	now       func() time.Time

	reads    *batch.Coalescer[string, readResult]
	finds    *batch.Coalescer[positionID, findResult]
	takes    *batch.Groups[string, takeRequest, *newRecord]
	writes   recordWrites
	pacer    writePacer
	backlogs assignBacklogs
}

// readResult has an event's counters; ok is false if the event has none.
type readResult struct {
	counters room.Counters
	ok       bool
}

// New returns a Store that uses the tables whose names begin with the prefix in cfg.
func New(db *dynamodb.Client, cfg dynamo.Config, now func() time.Time) *Store {
	s := &Store{
		db: db, counters: cfg.Table(countersTable), positions: cfg.Table(positionsTable), now: now,
		pacer: writePacer{gap: minCounterInterval, last: make(map[string]time.Time)},
	}
	s.reads = batch.NewCoalescer(batch.Config{Max: maxReadsPerBatch, Inflight: 2, Timeout: readTimeout}, s.readCounterGroup)
	s.finds = batch.NewItems(batch.Config{Max: maxReadsPerBatch, Inflight: 4, Timeout: readTimeout}, s.findRecordGroup)
	s.writes = recordWrites{store: s.storeRecords, events: make(map[string]*eventWrites)}
	// One group per event is in progress at a time, so that positions are issued in order of arrival.
	// The slower the store, the larger the groups.
	s.takes = batch.NewGroups(batch.Config{Max: maxTakesPerGroup, Inflight: 1, Timeout: takesTimeout}, maxEvents, s.takePositions)
	return s
}

func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.takes.Close(ctx), s.writes.wait(ctx), s.finds.Close(ctx), s.reads.Close(ctx))
}

// toUnavailable converts an error of the store to ErrUnavailable, with the cause for the log.
func toUnavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	default:
		return room.ErrUnavailable.WithRetry(time.Second).Wrap(err)
	}
}

// conditionalError returns ErrStale if the condition of a write failed, or if another transaction
// was writing the item (such as an activation): nothing was written then. It converts other errors
// as toUnavailable does.
func conditionalError(err error) error {
	if dynamo.Contended(err) {
		return room.ErrStale
	}
	return toUnavailable(err)
}

// batchGet reads items consistently; keys must be unique.
func (s *Store) batchGet(ctx context.Context, table string, keys []dynamo.Item) ([]dynamo.Item, error) {
	items, err := dynamo.BatchGet(ctx, s.db, table, keys)
	return items, toUnavailable(err)
}
