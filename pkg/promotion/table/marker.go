package table

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
)

// MarkerPartition is the partition key of the i-th partition of markers.
func MarkerPartition(i int) string { return fmt.Sprintf("PENDING#%02x", i) }

// MarkersBefore is the sort key below which are the markers of requests before a time.
func MarkersBefore(ms int64) string { return sortableTime(ms) }

// MarkerKey is the key of a marker. It follows from the request alone, so that its settlement need not
// look it up.
func MarkerKey(m *promotion.Marker) dynamo.Item {
	sk := sortableTime(m.RequestedAt) + "#" + m.RequestID
	if m.Gen > 0 {
		sk += fmt.Sprintf("#r%d", m.Gen)
	}
	return Key(MarkerPartition(promotion.PartitionOf(m.RequestID)), sk)
}

// MarkerItem encodes a marker; it has no expiry.
func MarkerItem(m *promotion.Marker) dynamo.Item {
	b := itemBuilder(MarkerKey(m))
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

// DecodeMarker reads a marker. One that cannot be read is returned with promotion.ErrUnreadable and
// with what its key tells: it counts as not queued, and its event is not known.
func DecodeMarker(it dynamo.Item) (promotion.Marker, error) {
	d := dynamo.Reader{Item: it}
	m := promotion.Marker{
		RequestID: d.String("requestId"), EventID: d.String("eventId"), Gen: d.Number("gen"), RequestedAt: d.Number("requestedAt"),
		MarkedAt: d.Number("markedAt"), QueuedAt: d.Number("queuedAt"),
	}
	if err := d.Err(); err != nil || m.RequestID == "" || m.EventID == "" {
		return markerOfKey(it), fmt.Errorf("marker: %w: %w", promotion.ErrUnreadable, cmp.Or(err, errors.New("an attribute is missing")))
	}
	return m, nil
}

// markerOfKey is what the key of a marker tells of it. RequestID is empty if it is not a marker's.
func markerOfKey(it dynamo.Item) promotion.Marker {
	d := dynamo.Reader{Item: it}
	at, rest, _ := strings.Cut(d.String(SK), "#")
	id, gen, _ := strings.Cut(rest, "#r")
	m := promotion.Marker{RequestID: id}
	m.RequestedAt, _ = strconv.ParseInt(at, 10, 64)
	m.Gen, _ = strconv.ParseInt(gen, 10, 64)
	m.MarkedAt = m.RequestedAt
	return m
}
