package promotion

import "fmt"

// The queues whose dead letters are kept in the table.
const (
	DeadLetters          = "requests"
	AdmissionDeadLetters = "admissions"
)

// DeadLetter is a message that could not be processed.
type DeadLetter struct {
	// Queue is DeadLetters if it is empty.
	Queue string
	// ID begins with a time: dead letters of a queue are in the order of their times.
	ID string
	// RequestID is empty for a message that could not be read.
	RequestID, EventID string
	Body               string
	ErrorCode          string
	ErrorMessage       string
	At                 int64
	// RedrivenAt is when an operator began the request anew; 0: not.
	RedrivenAt int64
}

// NewDeadLetter makes a dead letter; id is the request's, or the message's if it could not be read.
func NewDeadLetter(id string, now int64) DeadLetter {
	return DeadLetter{ID: fmt.Sprintf("%013d#%s", now, id), At: now}
}
