package asyncevent

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/ids"
)

// Announcement is the event of a request that ended, for the topic request-events.
type Announcement struct {
	// ID is the event's, by which consumers deduplicate.
	ID         uuid.UUID  `json:"id"`
	RequestID  string     `json:"requestId"`
	EventID    string     `json:"eventId"`
	UserID     string     `json:"userId"`
	EventType  Type       `json:"eventType"`
	Status     Status     `json:"status"`
	ResultCode ResultCode `json:"resultCode"`
	QueueSeq   string     `json:"queueSeq,omitempty"`
	// Version is the request's StatusAt.
	Version int64 `json:"version"`
}

// AnnouncementOf is the event of a request that has ended.
func AnnouncementOf(r *Request) Announcement {
	return Announcement{
		ID: ids.NewV7(), RequestID: r.RequestID, EventID: r.EventID, UserID: r.UserID, EventType: r.EventType, Status: r.Status,
		ResultCode: r.ResultCode, QueueSeq: r.QueueSeq, Version: r.StatusAt,
	}
}

// Outbox is the item with the announcements of one transaction, deleted after they were published.
type Outbox struct {
	Key  dynamo.Item
	Rows []Announcement
}

// WrittenAt is when the transaction was written.
func (o *Outbox) WrittenAt() time.Time {
	d := dynamo.Reader{Item: o.Key}
	ms, _, _ := strings.Cut(d.String(SK), "#")
	at, _ := strconv.ParseInt(ms, 10, 64)
	return time.UnixMilli(at)
}

// OutboxPartition is the partition key of the i-th partition of announcements.
func OutboxPartition(i int) string { return fmt.Sprintf("OUTBOX#%02x", i) }

// NewOutbox makes an item in one of the partitions.
func NewOutbox(now int64, rows []Announcement) (item dynamo.Item, partition int) {
	id := ids.NewV7().String()
	partition = partitionOf(id)
	b := newItem(OutboxPartition(partition), stamp(now)+"#"+id, "OUTBOX")
	text, _ := json.Marshal(rows) // strings and numbers always marshal
	b.str("rows", string(text))
	return dynamo.Item(b), partition
}

// DecodeOutbox reads the announcements of an item.
func DecodeOutbox(it dynamo.Item) (Outbox, error) {
	d := dynamo.Reader{Item: it}
	o := Outbox{Key: KeyOf(it)}
	if err := json.Unmarshal([]byte(d.String("rows")), &o.Rows); err != nil {
		return o, fmt.Errorf("announcements %s: %w", d.String(SK), err)
	}
	return o, d.Err()
}
