package figures

import (
	"sync"
	"time"

	"urr.guru/pkg/errs"
)

// Batch is a run of consecutive records of one Kafka partition, which the store counts together.
type Batch struct {
	Topic     string
	Partition int32
	// Next is the offset after the batch's last record.
	Next int64
	// EventIDs are the ids of the batch's Kafka events, in the order of the records.
	EventIDs []string
	Times    []time.Time // when each of these events was published
	// Delta returns what the events whose ids are in fresh add to the figures. Callers must not
	// change the result.
	Delta func(fresh map[string]bool) (Delta, error)
	// Old maps ids to offsets, for events so old that the inbox may have deleted their ids. The offset
	// of such an event shows whether it was counted.
	Old map[string]int64
	// Redriven are the ids of dead letters that were published again. Each of them counts once,
	// however late another copy of it arrives.
	Redriven []string
}

// newBatch makes a batch of consecutive records, of which there must be one or more. The inbox may
// have deleted the ids of events published before oldest.
func newBatch(topic string, partition int32, records []Record, oldest time.Time) Batch {
	b := Batch{Topic: topic, Partition: partition, Next: records[len(records)-1].Offset + 1}
	for _, r := range records {
		b.EventIDs, b.Times = append(b.EventIDs, r.EventID), append(b.Times, r.Time)
		if r.Redriven {
			b.Redriven = append(b.Redriven, r.EventID)
		}
		_, repeated := b.Old[r.EventID]
		if r.Time.Before(oldest) && !repeated { // an event counts at its first offset
			if b.Old == nil {
				b.Old = make(map[string]int64)
			}
			b.Old[r.EventID] = r.Offset
		}
	}
	return b
}

// expectedDelta is what a batch adds if none of its events is counted yet, the usual case. It is
// computed in the background while the store looks up which events are counted.
type expectedDelta struct {
	done  sync.WaitGroup
	ids   map[string]bool
	delta Delta
	err   error
}

// sumInBackground starts to decode and add up all records. The result may be read after done.Wait.
func sumInBackground(records []Record) *expectedDelta {
	e := &expectedDelta{ids: make(map[string]bool, len(records))}
	for _, r := range records {
		e.ids[r.EventID] = true
	}
	e.done.Go(func() {
		defer func() { // a panic in this goroutine would end the process
			if p := recover(); p != nil {
				e.err = errs.FromPanic(p)
			}
		}()
		e.delta, e.err = sumFresh(records, e.ids)
	})
	return e
}

// deltaOf returns what the records whose event ids are in fresh add to the figures.
func (e *expectedDelta) deltaOf(records []Record, fresh map[string]bool) (Delta, error) {
	if len(fresh) < len(e.ids) {
		return sumFresh(records, fresh) // e.err may be about an event that is counted already
	}
	e.done.Wait()
	return e.delta, e.err
}

// sumFresh adds up the records whose event ids are in fresh. If an id occurs twice, it counts once.
func sumFresh(records []Record, fresh map[string]bool) (Delta, error) {
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
