package promotion

import "hash/fnv"

// Marker says that the worker service has not processed a request yet. It is written with the
// request and deleted with the processing. With it the sweeper of the ingest service finds requests
// that never got into the queue or whose message was lost.
type Marker struct {
	RequestID, EventID string
	EventType          Type
	Gen                int64
	// RequestedAt is copied from the request, so that markers are sorted by the time of acceptance.
	RequestedAt int64
	// MarkedAt is when the marker was written, or its message sent again.
	MarkedAt int64
	// QueuedAt is when the queue accepted the message; 0: it is not known whether it did.
	QueuedAt int64
}

// MarkerOf makes the marker of a request in its present generation.
func MarkerOf(r *Request, now int64) Marker {
	return Marker{RequestID: r.RequestID, EventID: r.EventID, EventType: r.EventType, Gen: r.Gen, RequestedAt: r.RequestedAt, MarkedAt: now}
}

// Partitions is the number of partitions over which markers, and also announcements, are spread. To
// find all markers a worker reads every partition.
const Partitions = 64

// PartitionOf returns the partition of an id; ids are spread evenly.
func PartitionOf(id string) int { return int(hash(id) % Partitions) }

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // a hash never fails
	return h.Sum32()
}
