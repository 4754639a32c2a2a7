// Package dynamo keeps tier 1 in two DynamoDB tables: `{prefix}-vwr-counters`, an item per event and the registry of active events, and
// `{prefix}-vwr-positions`, an item per visitor. Calls that arrive together are written together.
package dynamo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/dynamo"
	"urr.guru/services/vwr/internal/room"
)

const (
	// counterGap is the least time between two of a replica's writes that give out positions of one event: an item takes 1,000 writes/s,
	// which many replicas share.
	counterGap = 25 * time.Millisecond
	// readsMax is the most calls that share one read.
	readsMax = 1000
	// readTimeout bounds a shared read; its callers may give up sooner.
	readTimeout = 3 * time.Second
	// takesMax is the most assigns that are answered by one counter write.
	takesMax = 500
	// takesTimeout bounds a group of assigns. It is longer than its callers wait: a position that was given out is better stored late,
	// for its visitor to find, than lost.
	takesTimeout = 10 * time.Second
	// putsAtOnce bounds the writes of records that a replica has under way for an event.
	putsAtOnce = 128
	// eventsMost bounds the events for which visitors are assigned positions at once; only active
	// ones get that far.
	eventsMost = 4096
	// MaxPerWrite is how many records a transaction takes.
	MaxPerWrite = 100
)

var (
	_ room.Rooms     = (*Store)(nil)
	_ room.Source    = (*Store)(nil)
	_ room.Positions = (*Store)(nil)
)

// Store is both tables. It is safe for concurrent use.
type Store struct {
	db        *dynamodb.Client
	counters  string
	positions string
	now       func() time.Time
	perWrite  int

	reads *batch.Coalescer[string, counted]
	finds *batch.Coalescer[positionID, found]
	takes *batch.Groups[string, take, room.Record]
	pacer pacer
	queue backlogs
}

// counted is an event's counters, if it has any.
type counted struct {
	counters room.Counters
	ok       bool
}

// New makes a store over the tables that cfg names. perWrite is how many new records are written together (1–100, what DynamoDB takes in
// a transaction): with 1 each is a conditional PutItem; more are fewer calls at twice the write units.
func New(db *dynamodb.Client, cfg dynamo.Config, perWrite int, now func() time.Time) *Store {
	s := &Store{
		db: db, counters: cfg.Table(countersTable), positions: cfg.Table(positionsTable), now: now,
		perWrite: max(1, min(perWrite, MaxPerWrite)),
		pacer:    pacer{gap: counterGap, last: make(map[string]time.Time)},
	}
	s.reads = batch.NewCoalescer(batch.Config{Max: readsMax, Inflight: 2, Timeout: readTimeout}, s.readGroup)
	s.finds = batch.NewCoalescer(batch.Config{Max: readsMax, Inflight: 4, Timeout: readTimeout}, s.findGroup)
	// One group of an event at a time: positions are given out in the order of arrival, and a slow
	// store is met by larger groups.
	s.takes = batch.NewGroups(batch.Config{Max: takesMax, Inflight: 1, Timeout: takesTimeout}, eventsMost, s.takeGroup)
	return s
}

// Close waits for the groups in flight.
func (s *Store) Close(ctx context.Context) error {
	return errors.Join(s.takes.Close(ctx), s.finds.Close(ctx), s.reads.Close(ctx))
}

// unavailable turns a failure of the store into the one that visitors get; the cause stays for the log.
func unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, context.Canceled):
		return err
	default:
		return room.ErrUnavailable.WithRetry(time.Second).Wrap(err)
	}
}

// conditional is unavailable, but for a condition that does not hold: ErrStale. A conflict with a transaction on the same item (an
// activation) is the same: nothing was written, the state changes.
func conditional(err error) error {
	if _, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return room.ErrStale
	}
	if _, ok := errors.AsType[*types.TransactionConflictException](err); ok {
		return room.ErrStale
	}
	if canceled, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		for _, r := range canceled.CancellationReasons {
			if code := aws.ToString(r.Code); code == "ConditionalCheckFailed" || code == "TransactionConflict" {
				return room.ErrStale
			}
		}
	}
	return unavailable(err)
}

// Limits of BatchGetItem, and how often what it left out is asked for again.
const (
	batchGetMax   = 100
	batchGetTries = 6
)

// batchGet reads items consistently, in parallel calls of 100 keys; keys must differ. The order is undefined, absent items are left out.
func (s *Store) batchGet(ctx context.Context, table string, keys []item) ([]item, error) {
	var (
		mu    sync.Mutex
		items []item
		errs  []error
		work  sync.WaitGroup
	)
	for start := 0; start < len(keys); start += batchGetMax {
		part := keys[start:min(start+batchGetMax, len(keys))]
		work.Go(func() {
			got, err := s.batchGetPart(ctx, table, part)
			mu.Lock()
			defer mu.Unlock()
			items = append(items, got...)
			if err != nil {
				errs = append(errs, err)
			}
		})
	}
	work.Wait()
	return items, unavailable(errors.Join(errs...))
}

func (s *Store) batchGetPart(ctx context.Context, table string, keys []item) ([]item, error) {
	var items []item
	wait := 20 * time.Millisecond
	want := map[string]types.KeysAndAttributes{table: {Keys: keys, ConsistentRead: aws.Bool(true)}}
	for range batchGetTries {
		out, err := s.db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: want})
		if err != nil {
			return nil, err
		}
		items = append(items, out.Responses[table]...)
		if len(out.UnprocessedKeys) == 0 {
			return items, nil
		}
		want = out.UnprocessedKeys
		select {
		case <-time.After(wait):
			wait *= 2
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, fmt.Errorf("%s: keys stay unprocessed after %d attempts", table, batchGetTries)
}

// positionID is the key of a position.
type positionID struct {
	eventID string
	id      uuid.UUID
}
