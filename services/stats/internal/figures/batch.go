package figures

import "time"

// Batch is consecutive records of one partition, as the store counts them.
type Batch struct {
	Topic     string
	Partition int32
	// Next is the offset after the batch's last record.
	Next int64
	// EventIDs are the ids of the batch's events, and Delta computes what those in fresh add.
	EventIDs []string
	Delta    func(fresh map[string]bool) (Delta, error)
	// Old are the offsets of those that the inbox may have deleted, by event id.
	Old map[string]int64
}

// newBatch describes consecutive records of one partition, at least one. The inbox may have deleted
// the ids of events published before oldest.
func newBatch(topic string, partition int32, records []Record, oldest time.Time) Batch {
	b := Batch{Topic: topic, Partition: partition, Next: records[len(records)-1].Offset + 1}
	for _, r := range records {
		b.EventIDs = append(b.EventIDs, r.EventID)
		_, repeated := b.Old[r.EventID]
		if r.Time.Before(oldest) && !repeated { // the first offset of an event is the one counted
			if b.Old == nil {
				b.Old = make(map[string]int64)
			}
			b.Old[r.EventID] = r.Offset
		}
	}
	b.Delta = func(fresh map[string]bool) (Delta, error) { return sum(records, fresh) }
	return b
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
