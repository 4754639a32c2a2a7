package figures

// Batch is consecutive records of one partition.
type Batch struct {
	Topic     string
	Partition int32
	// Next is the offset after the batch's last record.
	Next int64
	// EventIDs are the ids of the batch's events, and Delta computes what those in fresh add.
	EventIDs []string
	// Old are the offsets of those that the inbox may have forgotten, by event id.
	Old   map[string]int64
	Delta func(fresh map[string]bool) (Delta, error)
}
