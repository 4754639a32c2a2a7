package promotion

import "fmt"

// The names of the queues whose dead letters are kept in the table.
const (
	DeadLetters          = "requests"
	AdmissionDeadLetters = "admissions"
)

// UnreadableAnnouncement is the error code of dead letters with announcements from the outbox.
const UnreadableAnnouncement = "UNREADABLE_ANNOUNCEMENT"

// DeadLetter is a message of a queue that could not be processed.
type DeadLetter struct {
	Queue              string // empty means DeadLetters
	ID                 string // begins with a time, by which dead letters are sorted
	RequestID, EventID string // empty for a message that could not be read
	Body               string
	ErrorCode          string
	ErrorMessage       string
	At                 int64
	RedrivenAt         int64 // when an operator put the request back into the queue; 0: never
}

// NewDeadLetter makes a dead letter. id is the request's or, if that cannot be read, the message's.
func NewDeadLetter(id string, now int64) DeadLetter {
	return DeadLetter{ID: fmt.Sprintf("%013d#%s", now, id), At: now}
}
