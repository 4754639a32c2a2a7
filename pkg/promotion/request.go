package promotion

import (
	"errors"
	"fmt"
	"strings"
)

// maxErrorMessage is the largest size of ErrorMessage, in bytes.
const maxErrorMessage = 256

// Request is a user's application to a promotion, as it is stored. A time of 0 is unknown.
type Request struct {
	RequestID, EventID, UserID string
	EventType                  Type

	Status   Status
	StatusAt int64 // time of the last change of the status; unique within the request
	Gen      int64 // generation: 0, and one more with each redrive; messages of older ones are dropped
	Attempts int64 // how many attempts to process it have failed since the last redrive

	RequestedAt, QueuedAt, StartedAt, FinishedAt int64
	// EnteredAt is when a lottery request became an entry.
	EnteredAt int64
	// QueueSeq is the request's Turn (its position in the queue) as text: the order of first come.
	QueueSeq string
	// Place is the place of a successful first-come request among the winners, from 1, in the order in
	// which they were processed; 0 if it has none.
	Place int64

	ResultCode   ResultCode
	FailureClass FailureClass // of the last failed attempt, like ErrorCode and ErrorMessage
	ErrorCode    string
	ErrorMessage string

	LotteryCutoffAt, AnnouncedAt int64

	// Shard and Shards spread the requests of a large event over several partitions of the index GSI2.
	Shard, Shards int64
	// EndsAt is when the promotion is over and announced: retention counts from it.
	EndsAt int64
}

// NewRequest makes the request of a user that is accepted now.
func NewRequest(p *Promotion, id, user string, now int64) Request {
	r := Request{
		RequestID: id, EventID: p.EventID, UserID: user, EventType: p.EventType, Status: Received, StatusAt: now, RequestedAt: now,
		LotteryCutoffAt: p.LotteryCutoffAt, AnnouncedAt: p.AnnouncedAt, Shards: max(1, p.Shards), EndsAt: max(p.EndsAt(), now),
	}
	r.Shard = ShardOf(id, r.Shards)
	return r
}

// ShardOf returns which of the given number of partitions of the index GSI2 a request is in.
func ShardOf(id string, shards int64) int64 { return int64(hash(id)) % shards }

// LogEntry is one change of a request's status.
type LogEntry struct {
	RequestID  string
	From, To   Status
	OccurredAt int64
	EndsAt     int64
}

// Change is one step of a request: the state read, the next state, and the new log entries.
type Change struct {
	Before, After Request
	Logs          []LogEntry
}

func (r *Request) change() Change { return Change{Before: *r, After: *r} }

// moveTo sets and logs the status. Its time is after that of the last change, even if now is not.
func (c *Change) moveTo(s Status, now int64) {
	at := max(now, c.After.StatusAt+1)
	c.Logs = append(c.Logs, LogEntry{RequestID: c.After.RequestID, From: c.After.Status, To: s, OccurredAt: at, EndsAt: c.After.EndsAt})
	c.After.Status, c.After.StatusAt = s, at
	switch s {
	case Queued:
		if c.After.QueuedAt == 0 {
			c.After.QueuedAt = at
		}
	case Processing:
		if c.After.StartedAt == 0 {
			c.After.StartedAt = at
		}
	case Succeeded, Rejected, FailedFinal:
		c.After.FinishedAt = at
	case Received:
	}
}

func (r *Request) Created() Change {
	return Change{After: *r, Logs: []LogEntry{{RequestID: r.RequestID, To: r.Status, OccurredAt: r.StatusAt, EndsAt: r.EndsAt}}}
}

// Queued is the change that records that the queue has accepted the request's message.
func (r *Request) Queued(now int64) Change {
	c := r.change()
	c.moveTo(Queued, now)
	return c
}

// ensureStarted moves the request to PROCESSING, through the statuses that are still missing. The
// queue accepted its message at sentAt.
func (c *Change) ensureStarted(now, sentAt int64) {
	if c.After.Status == Received {
		c.moveTo(Queued, sentAt)
	}
	if c.After.Status == Queued {
		c.moveTo(Processing, now)
	}
}

// Settled ends a request that the worker service has processed at its position t in the queue.
func (r *Request) Settled(now int64, s Status, code ResultCode, t Turn) Change {
	c := r.change()
	c.ensureStarted(now, t.SentAt)
	c.After.QueueSeq = t.QueueSeq()
	c.end(now, s, code)
	return c
}

// Won ends a first-come request as successful. place is its place among the winners, from 1.
func (r *Request) Won(now, place int64, t Turn) Change {
	c := r.Settled(now, Succeeded, Success, t)
	c.After.Place = place
	return c
}

// SettledLog computes the log of a first-come request that has ended, from QUEUED on, from its
// times. ok is false where that is impossible: for lottery requests, and for those that ended
// without a Turn in the queue or had failed before.
func (r *Request) SettledLog() (log []LogEntry, ok bool) {
	if r.EventType != FirstCome || r.QueueSeq == "" || r.Gen != 0 || r.Status != Succeeded && r.Status != Rejected {
		return nil, false
	}
	last := LogEntry{RequestID: r.RequestID, To: Received, EndsAt: r.EndsAt}
	for _, step := range []struct {
		to Status
		at int64
	}{{Queued, r.QueuedAt}, {Processing, r.StartedAt}, {r.Status, r.FinishedAt}} {
		last.From, last.To, last.OccurredAt = last.To, step.to, step.at
		log = append(log, last)
	}
	return log, true
}

// Entered makes a lottery request, processed at its position t in the queue, an entry of the draw.
// The entry gets its result at the announcement, by Ended.
func (r *Request) Entered(now int64, t Turn) Change {
	c := r.change()
	c.ensureStarted(now, t.SentAt)
	c.After.QueueSeq = t.QueueSeq()
	c.After.EnteredAt = max(now, c.After.StatusAt)
	return c
}

// Withdrawn ends a lottery request that its user withdraws, whether or not it is an entry.
func (r *Request) Withdrawn(now int64) Change {
	c := r.change()
	c.After.EnteredAt = 0
	c.end(now, Rejected, RejectedWithdrawn)
	return c
}

// Ended ends a request without processing (nothing is left, or it cannot be queued), or gives an
// entry its result.
func (r *Request) Ended(now int64, s Status, code ResultCode) Change {
	c := r.change()
	c.end(now, s, code)
	return c
}

// end sets the final status and its reason. Unless the request fails, it clears earlier failures.
func (c *Change) end(now int64, s Status, code ResultCode) {
	c.moveTo(s, now)
	c.After.ResultCode = code
	if s != FailedFinal {
		c.After.FailureClass, c.After.ErrorCode, c.After.ErrorMessage = "", "", ""
	}
}

// Failure says why an attempt to process a request failed.
type Failure struct {
	Class FailureClass
	// Code is short and public. Message is a hint for operators.
	Code, Message string
}

func (c *Change) setFailure(f Failure) {
	c.After.FailureClass, c.After.ErrorCode, c.After.ErrorMessage = f.Class, f.Code, Shorten(f.Message)
}

// Attempted counts a failed attempt to process the request. It is also written before an attempt
// that may crash the process.
func (r *Request) Attempted(now int64, f Failure) Change {
	c := r.change()
	c.ensureStarted(now, now)
	c.After.Attempts++
	c.setFailure(f)
	return c
}

// Failed ends a request that cannot be processed.
func (r *Request) Failed(now int64, code ResultCode, f Failure) Change {
	c := r.change()
	c.ensureStarted(now, now)
	c.setFailure(f)
	c.end(now, FailedFinal, code)
	return c
}

// Requeued gives a request without a result a new generation: its earlier messages are dropped.
func (r *Request) Requeued() Change {
	c := r.change()
	c.After.Gen++
	return c
}

// Redriven puts a failed request back to QUEUED, in a new generation.
func (r *Request) Redriven(now int64) Change {
	c := r.change()
	c.moveTo(Queued, now)
	c.After.Gen++
	c.After.Attempts, c.After.FinishedAt, c.After.QueueSeq = 0, 0, ""
	c.After.ResultCode, c.After.FailureClass, c.After.ErrorCode, c.After.ErrorMessage = "", "", "", ""
	return c
}

// ErrNotRedrivable means that a request cannot be redriven: it has not failed, its user has applied
// again (even if that application was withdrawn), or its item cannot be read.
var ErrNotRedrivable = errors.New("the request cannot begin anew")

// ErrUnreadable means that one item of the table cannot be decoded. It must not stop the handling
// of other items.
var ErrUnreadable = errors.New("the item cannot be read")

// Redrivable reports whether an operator may redrive the request. A request that never got into the
// queue may not: its user applies again instead.
func (r *Request) Redrivable() bool {
	return r.Status == FailedFinal && r.ResultCode != FailedIngestEnqueue
}

// LockExpired reports whether the lock that named the request may have been deleted, so that only the
// user's index shows whether the user has applied again.
func (r *Request) LockExpired(now int64) bool { return lockExpired(r.EndsAt, now) }

// Replaceable reports whether the user may apply again although this request exists.
func (r *Request) Replaceable() bool {
	return r.Status == FailedFinal || r.ResultCode == RejectedWithdrawn
}

// Counts reports whether the request is the user's only valid one to the promotion: it is not if it
// could not be queued or was withdrawn. The user's Lock says the same as long as it is stored.
func (r *Request) Counts() bool {
	return r.ResultCode != FailedIngestEnqueue && r.ResultCode != RejectedWithdrawn
}

// queueSeqDigits is how many digits a 128-bit SequenceNumber of SQS may have.
const queueSeqDigits = 39

// Turn is the position of a request in the queue.
type Turn struct {
	SequenceNumber string // of the request's message
	Member         int    // its index among the requests of the message
	SentAt         int64  // when the queue accepted the message, by the queue's clock
}

// QueueSeq returns the turn as a text: the SequenceNumber, padded with zeros so that texts sort
// like turns, a point, and the index.
func (t Turn) QueueSeq() string {
	return fmt.Sprintf("%s%s.%02d", strings.Repeat("0", max(0, queueSeqDigits-len(t.SequenceNumber))), t.SequenceNumber, t.Member)
}

// Shorten cuts a hint for operators to at most 256 bytes, between two characters.
func Shorten(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxErrorMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorMessage], "")
}
