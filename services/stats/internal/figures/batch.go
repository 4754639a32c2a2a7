package figures

import (
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// Batch is consecutive records of one partition, as the store counts them.
type Batch struct {
	Topic     string
	Partition int32
	// Next is the offset after the batch's last record.
	Next int64
	// EventIDs are the ids of the batch's events. Delta computes what those in fresh add; its result must
	// not be changed.
	EventIDs []string
	Delta    func(fresh map[string]bool) (Delta, error)
	// Old has the offsets of events whose ids the inbox may have deleted, by event id.
	Old map[string]int64
	// Redriven are the ids of dead letters that were published again. Each counts once, however late
	// a copy comes.
	Redriven []string
}

// newBatch makes a batch of consecutive records, at least one. The inbox may have deleted the ids of
// events published before oldest.
func newBatch(topic string, partition int32, records []Record, oldest time.Time) Batch {
	b := Batch{Topic: topic, Partition: partition, Next: records[len(records)-1].Offset + 1}
	for _, r := range records {
		b.EventIDs = append(b.EventIDs, r.EventID)
		if r.Redriven {
			b.Redriven = append(b.Redriven, r.EventID)
		}
		_, repeated := b.Old[r.EventID]
		if r.Time.Before(oldest) && !repeated { // the first offset of an event is the one counted
			if b.Old == nil {
				b.Old = make(map[string]int64)
			}
			b.Old[r.EventID] = r.Offset
		}
	}
	return b
}

// expectation is what a batch adds if none of its events is counted yet, the usual case. It is
// computed while the store looks the events up.
type expectation struct {
	done  sync.WaitGroup
	ids   map[string]bool
	delta Delta
	err   error
}

// expect decodes the records in the background; wait for done.
func expect(records []Record) *expectation {
	e := &expectation{ids: make(map[string]bool, len(records))}
	for _, r := range records {
		e.ids[r.EventID] = true
	}
	e.done.Go(func() {
		defer func() { // a panic in this goroutine would end the process
			if p := recover(); p != nil {
				e.err = errs.FromPanic(p)
			}
		}()
		e.delta, e.err = sum(records, e.ids)
	})
	return e
}

// deltaOf returns what the fresh records add to the figures.
func (e *expectation) deltaOf(records []Record, fresh map[string]bool) (Delta, error) {
	if len(fresh) < len(e.ids) {
		return sum(records, fresh) // a counted event that cannot be decoded is no error
	}
	e.done.Wait()
	return e.delta, e.err
}

// sum adds up the fresh records; one that occurs twice in the batch counts once.
func sum(records []Record, fresh map[string]bool) (Delta, error) {
	var d Delta
	seen := make(map[string]bool, len(records))
	for _, r := range records {
		if !fresh[r.EventID] || seen[r.EventID] {
			continue
		}
		seen[r.EventID] = true
		if err := r.AddTo(&d); err != nil {
			return Delta{}, err
		}
	}
	return d, nil
}
