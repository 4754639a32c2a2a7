package dynamo

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/errs"
	"urr.guru/services/vwr/internal/room"
)

const (
	maxWriteCalls = 32 // the most calls in flight that store records of one event
	// maxWriteWait is the longest that the first record of a key has waited when a position is still
	// issued for the key. A newcomer would wait about as long.
	maxWriteWait = 10 * time.Second
	// maxRecords is the most records of an event that wait, even before a wait can be measured: ten
	// seconds of 10,000 positions per second, more than a replica issues.
	maxRecords = 100_000
	// maxRecordAge is how long a record is sent again while DynamoDB throttles it.
	maxRecordAge = 30 * time.Second
	// A throttled record pauses for retryTick, and twice as long each time up to maxRetryPause. It is
	// sent together with others at a multiple of retryTick.
	retryTick     = 25 * time.Millisecond
	maxRetryPause = 400 * time.Millisecond
	// maxFillWait is the longest that records wait for others to fill a call.
	maxFillWait = 500 * time.Millisecond
	// maxLateness is how old a throttled record is when assigns no longer wait for it, and for those
	// behind it. Assigns come in batches, whose answer waits for the slowest, and a gateway has few
	// batches in flight.
	maxLateness = 500 * time.Millisecond
	// lateRetry is when the visitor of a late record asks again: when most such records are stored.
	// Before, another replica, which does not know the record, would issue a second position in vain.
	lateRetry = 5 * time.Second
)

// newRecord is a record to store, and its outcome.
type newRecord struct {
	room.Record

	issued time.Time // when its position was issued
	pause  time.Duration
	// stored and err are the result of the last call that stored it: the visitor's record, or why
	// there is none.
	stored  room.Record
	err     error
	late    chan struct{} // closed once assigns should not wait for the record
	done    chan struct{} // closed once outcome is set
	outcome room.Outcome[room.Record]
}

func newRecordFor(t takeRequest) *newRecord {
	return &newRecord{
		Record: room.Record{EventID: t.eventID, Round: t.round, RequestID: t.ids[0], Visitor: t.visitor},
		late:   make(chan struct{}), done: make(chan struct{}),
	}
}

// storedRecord returns a record that need not be stored.
func storedRecord(rec room.Record) *newRecord {
	r := &newRecord{Record: rec, done: make(chan struct{})}
	r.finish(room.Outcome[room.Record]{Value: rec})
	return r
}

func (r *newRecord) key() positionID { return positionIDOf(r.EventID, r.RequestID) }

func (r *newRecord) finish(o room.Outcome[room.Record]) {
	r.outcome = o
	close(r.done)
}

// await returns the outcome. It fails with errs.ErrOverloaded if the record is late, and if ctx ends.
func (r *newRecord) await(ctx context.Context) room.Outcome[room.Record] {
	var err error
	select {
	case <-r.done:
	case <-r.late:
		err = errs.ErrOverloaded.WithRetry(lateRetry)
	case <-ctx.Done():
		err = ctx.Err()
	}
	select {
	case <-r.done:
		return r.outcome
	default:
		return room.Outcome[room.Record]{Err: err}
	}
}

// isLate reports whether assigns no longer wait for the record. The caller holds the mutex.
func (r *newRecord) isLate() bool {
	select {
	case <-r.late:
		return true
	default:
		return false
	}
}

// recordWrites stores new records. Each event has a queue per partition key, in order of the
// positions. Only the first record of a queue is being stored, so that none overtakes an earlier
// one, and a throttled record delays only those behind it:
//
//	ready ──▶ in a call ──▶ stored or failed: the next record of the key is ready
//	  ▲           │
//	  └─ paused ◀─┘ throttled
type recordWrites struct {
	store func(ctx context.Context, records []*newRecord) // by one call; sets the result of each

	mu     sync.Mutex
	events map[string]*eventWrites // those with records
}

// eventWrites has the records of one event that are not stored yet.
type eventWrites struct {
	id      string
	records map[recordID]*newRecord
	keys    map[uint16][]*newRecord    // the queues, by the number of the key; none is empty
	ready   []uint16                   // keys whose first record is to be sent
	paused  map[time.Duration][]uint16 // by the time at which they are ready again
	calls   int                        // in flight
	took    time.Duration              // by the last call
	filling bool                       // the records that are ready wait for others
}

type recordID struct {
	round room.Round
	id    uuid.UUID
}

// find returns the record of a visitor that is not stored yet, or nil.
func (w *recordWrites) find(k roundKey, ids []uuid.UUID) *newRecord {
	w.mu.Lock()
	defer w.mu.Unlock()
	if e := w.events[k.eventID]; e != nil {
		for _, id := range ids {
			if r := e.records[recordID{k.round, id}]; r != nil {
				return r
			}
		}
	}
	return nil
}

// refuse fails with errs.ErrOverloaded if a new record would wait too long behind those that wait
// and `more` others.
func (w *recordWrites) refuse(eventID string, id uuid.UUID, more int) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events[eventID]
	if e == nil {
		return nil
	}
	queue := e.keys[keyNumber(id)]
	if len(e.records)+more < maxRecords && (len(queue) == 0 || time.Since(queue[0].issued) <= maxWriteWait) {
		return nil
	}
	return errs.ErrOverloaded.WithRetry(maxWriteWait)
}

// add queues records of one round, whose positions must exceed those of the round that were added
// before. It returns at once; ctx must not end.
func (w *recordWrites) add(ctx context.Context, k roundKey, records []*newRecord) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.events[k.eventID]
	if e == nil {
		e = &eventWrites{
			id: k.eventID, records: make(map[recordID]*newRecord), keys: make(map[uint16][]*newRecord), paused: make(map[time.Duration][]uint16),
		}
		w.events[k.eventID] = e
	}
	for _, r := range records {
		n := keyNumber(r.RequestID)
		if e.records[recordID{r.Round, r.RequestID}] = r; e.keys[n] == nil {
			e.ready = append(e.ready, n)
		}
		if e.keys[n] = append(e.keys[n], r); e.keys[n][0].isLate() {
			close(r.late)
		}
	}
	recordsWaiting.Add(float64(len(records)))
	w.startCalls(ctx, e)
}

// startCalls sends records that are ready. While calls are in flight, too few for a full call wait
// for others, at most for the time of a call: many of those behind the records in flight become
// ready then. The caller holds w.mu.
func (w *recordWrites) startCalls(ctx context.Context, e *eventWrites) {
	for e.calls < maxWriteCalls && (len(e.ready) >= dynamo.MaxInsert || len(e.ready) > 0 && e.calls == 0) {
		w.startCall(ctx, e)
	}
	if len(e.ready) == 0 || e.filling {
		return
	}
	e.filling = true
	time.AfterFunc(min(e.took, maxFillWait), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		e.filling = false
		if len(e.ready) > 0 && e.calls < maxWriteCalls {
			w.startCall(ctx, e)
		}
		w.startCalls(ctx, e)
	})
}

// startCall sends the first records that are ready. The caller holds w.mu.
func (w *recordWrites) startCall(ctx context.Context, e *eventWrites) {
	n := min(len(e.ready), dynamo.MaxInsert)
	keys := slices.Clone(e.ready[:n])
	e.ready = slices.Delete(e.ready, 0, n)
	records := make([]*newRecord, n)
	for i, key := range keys {
		records[i] = e.keys[key][0]
	}
	e.calls++
	go func() {
		began := time.Now()
		w.store(ctx, records)
		w.endCall(ctx, e, keys, time.Since(began))
	}()
}

// endCall ends a call that has stored the first records of keys.
func (w *recordWrites) endCall(ctx context.Context, e *eventWrites, keys []uint16, took time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e.calls--
	e.took = took
	for _, key := range keys {
		r := e.keys[key][0]
		if errors.Is(r.err, dynamo.ErrThrottled) && time.Since(r.issued) < maxRecordAge {
			w.pause(ctx, e, key, r)
			continue
		}
		switch {
		case r.err != nil:
			gaps.WithLabelValues("not_stored").Inc()
		case r.stored != r.Record: // else a lost response was to an attempt of this record
			gaps.WithLabelValues("issued_twice").Inc()
		}
		recordsWaiting.Dec()
		r.finish(room.Outcome[room.Record]{Value: r.stored, Err: toUnavailable(r.err)})
		delete(e.records, recordID{r.Round, r.RequestID})
		if e.keys[key] = e.keys[key][1:]; len(e.keys[key]) > 0 {
			e.ready = append(e.ready, key)
		} else {
			delete(e.keys, key)
		}
	}
	w.startCalls(ctx, e)
	if len(e.keys) == 0 {
		delete(w.events, e.id)
	}
}

// pause makes a key whose first record is throttled ready again later. The caller holds w.mu.
func (w *recordWrites) pause(ctx context.Context, e *eventWrites, key uint16, r *newRecord) {
	if time.Since(r.issued) >= maxLateness {
		for _, behind := range e.keys[key] {
			if !behind.isLate() {
				close(behind.late)
			}
		}
	}
	r.pause = min(max(2*r.pause, retryTick), maxRetryPause)
	now := time.Duration(time.Now().UnixNano())
	due := (now + r.pause + rand.N(r.pause)).Truncate(retryTick) //nolint:gosec // jitter
	if e.paused[due] == nil {
		time.AfterFunc(due-now, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			e.ready = append(e.ready, e.paused[due]...)
			delete(e.paused, due)
			w.startCalls(ctx, e)
		})
	}
	e.paused[due] = append(e.paused[due], key)
}

// wait waits until no record is waiting, at most until ctx ends.
func (w *recordWrites) wait(ctx context.Context) error {
	w.mu.Lock()
	var records []*newRecord
	for _, e := range w.events {
		for _, r := range e.records {
			records = append(records, r)
		}
	}
	w.mu.Unlock()
	for _, r := range records {
		select {
		case <-r.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
