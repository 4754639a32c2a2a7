package asyncevent

import (
	"cmp"
	"errors"
	"fmt"

	"urr.guru/pkg/dynamo"
)

// Marker guards a request from its acceptance until its settlement, which deletes it. The sweeper
// finds by it what was not put in the queue, and whose message was lost.
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

// MarkerPartition is the partition key of the i-th partition of markers.
func MarkerPartition(i int) string { return fmt.Sprintf("PENDING#%02x", i) }

// MarkersBefore is the sort key below which are the markers of requests before a time.
func MarkersBefore(ms int64) string { return stamp(ms) }

// Key is the marker's key. It follows from the request alone, so that whoever settles it needs no
// look-up.
func (m *Marker) Key() dynamo.Item {
	sk := stamp(m.RequestedAt) + "#" + m.RequestID
	if m.Gen > 0 {
		sk += fmt.Sprintf("#r%d", m.Gen)
	}
	return Key(MarkerPartition(partitionOf(m.RequestID)), sk)
}

// Item encodes the marker; it has no expiry.
func (m *Marker) Item() dynamo.Item {
	b := builder(m.Key())
	b.str("entityType", "MARKER")
	b.str("requestId", m.RequestID)
	b.str("eventId", m.EventID)
	b.count("gen", m.Gen)
	b.num("requestedAt", m.RequestedAt)
	b.num("markedAt", m.MarkedAt)
	b.num("queuedAt", m.QueuedAt)
	b.flag("queued", m.QueuedAt != 0)
	return dynamo.Item(b)
}

// DecodeMarker reads a marker. One that cannot be read is returned with ErrUnreadable and with what
// its key tells: it counts as not queued, and its event is not known.
func DecodeMarker(it dynamo.Item) (Marker, error) {
	d := dynamo.Reader{Item: it}
	m := Marker{
		RequestID: d.String("requestId"), EventID: d.String("eventId"), Gen: d.Number("gen"), RequestedAt: d.Number("requestedAt"),
		MarkedAt: d.Number("markedAt"), QueuedAt: d.Number("queuedAt"),
	}
	if err := d.Err(); err != nil || m.RequestID == "" || m.EventID == "" {
		return markerOfKey(it), fmt.Errorf("marker: %w: %w", ErrUnreadable, cmp.Or(err, errors.New("an attribute is missing")))
	}
	return m, nil
}
