package figures

import (
	"context"
	"time"
)

// Group is the Kafka consumer group of the stats service. The inbox uses this name too.
const Group = "stats-service-group"

// Record is one Kafka event, read from a partition.
type Record struct {
	EventID string
	Offset  int64
	// Redriven is true for a dead letter (an event that could not be processed) published again.
	Redriven bool
	// Time is when the event was published.
	Time time.Time
	// AddTo decodes the event and adds it to d. Its error is ignored if the event has been counted.
	AddTo func(d *Delta) error
}

// Store adds the figures of batches to the database.
type Store interface {
	// Apply counts each event of a batch once. If it fails, it has changed nothing.
	Apply(ctx context.Context, b Batch) error
}

// Service counts Kafka events: it groups records into batches and has the store apply them.
type Service struct {
	store    Store
	inboxAge time.Duration
	now      func() time.Time
}

// NewService makes the service. The store's inbox may delete ids of events after inboxAge.
func NewService(store Store, inboxAge time.Duration, now func() time.Time) *Service {
	return &Service{store: store, inboxAge: inboxAge, now: now}
}

// Count counts consecutive records of one partition in one transaction, each event once. It returns
// an error of AddTo as it is.
func (s *Service) Count(ctx context.Context, topic string, partition int32, records []Record) error {
	if len(records) == 0 {
		return nil
	}
	b := newBatch(topic, partition, records, s.now().Add(-s.inboxAge))
	expected := sumInBackground(records)
	defer expected.done.Wait()
	b.Delta = func(fresh map[string]bool) (Delta, error) { return expected.deltaOf(records, fresh) }
	return s.store.Apply(ctx, b)
}
