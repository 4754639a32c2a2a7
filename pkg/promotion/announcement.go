package promotion

import (
	"time"

	"github.com/google/uuid"

	"urr.guru/pkg/ids"
)

// Announcement is the Kafka event, on the topic request-events, that says how a request ended.
type Announcement struct {
	// ID is the id of the Kafka event, by which consumers deduplicate.
	ID         uuid.UUID  `json:"id"`
	RequestID  string     `json:"requestId"`
	EventID    string     `json:"eventId"`
	UserID     string     `json:"userId"`
	EventType  Type       `json:"eventType"`
	Status     Status     `json:"status"`
	ResultCode ResultCode `json:"resultCode"`
	QueueSeq   string     `json:"queueSeq,omitempty"`
	// Version is the StatusAt of the request, which grows with each change.
	Version int64 `json:"version"`
}

// AnnouncementOf makes the announcement of a request that has ended.
func AnnouncementOf(r *Request) Announcement {
	return Announcement{
		ID: ids.NewV7(), RequestID: r.RequestID, EventID: r.EventID, UserID: r.UserID, EventType: r.EventType, Status: r.Status,
		ResultCode: r.ResultCode, QueueSeq: r.QueueSeq, Version: r.StatusAt,
	}
}

// Outbox has the stored announcements of one transaction. It is deleted once they are published.
type Outbox struct {
	ID string
	// WrittenAt is when the transaction was written.
	WrittenAt time.Time
	Rows      []Announcement
}
