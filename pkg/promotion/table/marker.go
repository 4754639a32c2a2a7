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

// MarkerPartition is the key of the partition of markers with this number.
func MarkerPartition(number int) string { return fmt.Sprintf("PENDING#%02x", number) }

// MarkersBefore is the sort key below which are the markers of requests accepted before a time.
func MarkersBefore(ms int64) string { return sortableTime(ms) }

// MarkerKey is the key of a marker. It depends on the request alone, so that whoever has processed
// the request need not search for its marker.
func MarkerKey(m *promotion.Marker) dynamo.Item {
	sk := sortableTime(m.RequestedAt) + "#" + m.RequestID
	if m.Gen > 0 {
		sk += fmt.Sprintf("#r%d", m.Gen)
	}
	return Key(MarkerPartition(promotion.PartitionOf(m.RequestID)), sk)
}

// MarkerItem encodes a marker. The item never expires.
func MarkerItem(m *promotion.Marker) dynamo.Item {
	b := itemBuilder(MarkerKey(m))
	b.setString("entityType", "MARKER")
	b.setString("requestId", m.RequestID)
	b.setString("eventId", m.EventID)
	b.setString("eventType", string(m.EventType))
	b.setNumberOrZero("gen", m.Gen)
	b.setNonZero("requestedAt", m.RequestedAt)
	b.setNonZero("markedAt", m.MarkedAt)
	b.setNonZero("queuedAt", m.QueuedAt)
	b.setIfTrue("queued", m.QueuedAt != 0)
	return dynamo.Item(b)
}

// DecodeMarker reads a marker. If it cannot be read, the error is promotion.ErrUnreadable, and the
// result has only the values in the key: it counts as not queued, and its event is empty.
func DecodeMarker(it dynamo.Item) (promotion.Marker, error) {
	d := dynamo.Reader{Item: it}
	m := promotion.Marker{
		RequestID: d.String("requestId"), EventID: d.String("eventId"), EventType: promotion.Type(d.String("eventType")), Gen: d.Number("gen"),
		RequestedAt: d.Number("requestedAt"), MarkedAt: d.Number("markedAt"), QueuedAt: d.Number("queuedAt"),
	}
	if err := d.Err(); err != nil || m.RequestID == "" || m.EventID == "" {
		return markerOfKey(it), fmt.Errorf("marker: %w: %w", promotion.ErrUnreadable, cmp.Or(err, errors.New("an attribute is missing")))
	}
	return m, nil
}

// markerOfKey decodes the key of a marker. RequestID is empty if the key is not one of a marker.
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
