package promotion

import "hash/fnv"

// Marker says that a request has not been settled yet: it is written with the request and deleted by
// its settlement. By it the sweeper finds requests that were not put in the queue or whose message was
// lost.
type Marker struct {
	RequestID, EventID string
	Gen                int64
	// RequestedAt is the request's: markers of a partition are in the order of acceptance.
	RequestedAt int64
	// MarkedAt is when the marker was written, or its message sent again.
	MarkedAt int64
	// QueuedAt is when the queue took the message; 0: not known to have.
	QueuedAt int64
}

// MarkerOf is the marker of a request's present generation.
func MarkerOf(r *Request, now int64) Marker {
	return Marker{RequestID: r.RequestID, EventID: r.EventID, Gen: r.Gen, RequestedAt: r.RequestedAt, MarkedAt: now}
}

// Partitions is the number of partitions of markers, and of announcements. A pass reads each of them.
const Partitions = 64

// PartitionOf spreads ids evenly over the partitions.
func PartitionOf(id string) int { return int(hash(id) % Partitions) }

func hash(s string) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // a hash never fails
	return h.Sum32()
}
