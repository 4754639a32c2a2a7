package asyncevent

import (
	"fmt"
	"strings"

	"urr.guru/pkg/dynamo"
)

// maxErrorMessage bounds the operators' hint, in bytes.
const maxErrorMessage = 256

// Request is one application of a user to a promotion. Times are epoch milliseconds; 0 is unknown.
type Request struct {
	RequestID, EventID, UserID string
	EventType                  Type

	Status   Status
	StatusAt int64 // of the last change of the status; unique within the request
	Gen      int64 // 0, and one more with each redrive; messages of an older one are dropped
	Attempts int64 // that failed since the last redrive

	RequestedAt, QueuedAt, StartedAt, FinishedAt int64
	// EnteredAt is when a lottery request became an entry.
	EnteredAt int64
	// QueueSeq is the SequenceNumber of the message that was settled, padded with zeros so that texts
	// sort as numbers do: the order of first come.
	QueueSeq string

	ResultCode   ResultCode
	FailureClass FailureClass // of the last failed attempt, as the two below
	ErrorCode    string
	ErrorMessage string

	LotteryCutoffAt, AnnouncedAt int64

	// Shard and Shards spread a large event over several partitions of GSI2.
	Shard, Shards int64
	// EndsAt is when the promotion is over and announced: retention counts from it.
	EndsAt int64
}

// NewRequest is a request of a user as it is accepted at a time.
func NewRequest(p *Promotion, id, user string, now int64) Request {
	r := Request{
		RequestID: id, EventID: p.EventID, UserID: user, EventType: p.EventType, Status: Received, StatusAt: now, RequestedAt: now,
		LotteryCutoffAt: p.LotteryCutoffAt, AnnouncedAt: p.AnnouncedAt, Shards: max(1, p.Shards), EndsAt: max(p.EndsAt(), now),
	}
	r.Shard = int64(hash(id)) % r.Shards
	return r
}

// RequestKey is the key of a request's item.
func RequestKey(id string) dynamo.Item { return Key("REQ#"+id, "META") }

// UserIndex is the partition of GSI1 with the requests of a user.
func UserIndex(user string) string { return "USER#" + user }

// EventIndex are the partitions of GSI2 with the requests of an event.
func EventIndex(event string, shards int64) []string {
	if shards <= 1 {
		return []string{"EVENT#" + event}
	}
	out := make([]string, shards)
	for i := range out {
		out[i] = eventShard(event, int64(i))
	}
	return out
}

func eventShard(event string, shard int64) string { return fmt.Sprintf("EVENT#%s#%d", event, shard) }

// Item encodes the request. Attributes that conditions name are always written.
func (r *Request) Item() dynamo.Item {
	b := newItem("REQ#"+r.RequestID, "META", "REQUEST")
	b.str("requestId", r.RequestID)
	b.str("eventId", r.EventID)
	b.str("userId", r.UserID)
	b.str("eventType", string(r.EventType))
	b.str("idempotencyKey", lockPK(r.EventID, r.UserID))
	b.str("status", string(r.Status))
	b.count("statusAt", r.StatusAt)
	b.count("gen", r.Gen)
	b.count("attempts", r.Attempts)
	b.num("requestedAt", r.RequestedAt)
	b.num("queuedAt", r.QueuedAt)
	b.num("startedAt", r.StartedAt)
	b.num("finishedAt", r.FinishedAt)
	b.num("enteredAt", r.EnteredAt)
	b.str("queueSeq", r.QueueSeq)
	b.str("resultCode", string(r.ResultCode))
	b.str("failureClass", string(r.FailureClass))
	b.str("errorCode", r.ErrorCode)
	b.str("errorMessage", r.ErrorMessage)
	b.num("lotteryCutoffAt", r.LotteryCutoffAt)
	b.num("announcedAt", r.AnnouncedAt)
	b.num("shards", r.Shards)
	b.num("endsAt", r.EndsAt)
	b.num(TTL, expiry(r.EndsAt, requestDays))
	order := r.RequestedAt // until the time of queueing is known
	if r.QueuedAt != 0 {
		order = r.QueuedAt
	}
	sort := "QAT#" + stamp(order) + "#REQ#" + r.RequestID
	b.str(GSI1PK, UserIndex(r.UserID))
	b.str(GSI1SK, sort)
	event := "EVENT#" + r.EventID
	if r.Shards > 1 {
		event = eventShard(r.EventID, r.Shard)
	}
	b.str(GSI2PK, event)
	b.str(GSI2SK, sort)
	return dynamo.Item(b)
}

// DecodeRequest reads a request's item.
func DecodeRequest(it dynamo.Item) (Request, error) {
	d := dynamo.Reader{Item: it}
	r := Request{
		RequestID: d.String("requestId"), EventID: d.String("eventId"), UserID: d.String("userId"), EventType: Type(d.String("eventType")),
		Status: Status(d.String("status")), StatusAt: d.Number("statusAt"), Gen: d.Number("gen"), Attempts: d.Number("attempts"),
		RequestedAt: d.Number("requestedAt"), QueuedAt: d.Number("queuedAt"), StartedAt: d.Number("startedAt"),
		FinishedAt: d.Number("finishedAt"), EnteredAt: d.Number("enteredAt"), QueueSeq: d.String("queueSeq"),
		ResultCode: ResultCode(d.String("resultCode")), FailureClass: FailureClass(d.String("failureClass")),
		ErrorCode: d.String("errorCode"), ErrorMessage: d.String("errorMessage"),
		LotteryCutoffAt: d.Number("lotteryCutoffAt"), AnnouncedAt: d.Number("announcedAt"),
		Shards: max(1, d.Number("shards")), EndsAt: d.Number("endsAt"),
	}
	r.Shard = int64(hash(r.RequestID)) % r.Shards
	if err := d.Err(); err != nil {
		return r, fmt.Errorf("request %s: %w: %w", r.RequestID, ErrUnreadable, err)
	}
	if r.RequestID == "" || r.EventID == "" || r.UserID == "" || r.Status == "" {
		return r, fmt.Errorf("request %q: %w: an attribute is missing", r.RequestID, ErrUnreadable)
	}
	return r, nil
}

// Log is one change of a request's status.
type Log struct {
	RequestID  string
	From, To   Status
	OccurredAt int64
	EndsAt     int64
}

// LogPrefix begins the sort keys of logs.
const LogPrefix = "LOG#"

// Item encodes the entry.
func (l *Log) Item() dynamo.Item {
	b := newItem("REQ#"+l.RequestID, LogPrefix+stamp(l.OccurredAt), "STATUS_LOG")
	b.str("fromStatus", string(l.From))
	b.str("toStatus", string(l.To))
	b.num("occurredAt", l.OccurredAt)
	b.num(TTL, expiry(l.EndsAt, logDays))
	return dynamo.Item(b)
}

// DecodeLog reads an entry.
func DecodeLog(it dynamo.Item) (Log, error) {
	d := dynamo.Reader{Item: it}
	l := Log{
		RequestID: strings.TrimPrefix(d.String(PK), "REQ#"), From: Status(d.String("fromStatus")), To: Status(d.String("toStatus")),
		OccurredAt: d.Number("occurredAt"),
	}
	return l, d.Err()
}

// Change is a step of a request: the state that was read, the next one, and what it adds to the
// log.
type Change struct {
	Before, After Request
	Logs          []Log
}

func (r *Request) change() Change { return Change{Before: *r, After: *r} }

// become moves on to a status, at now or a millisecond after the last change.
func (c *Change) become(s Status, now int64) {
	at := max(now, c.After.StatusAt+1)
	c.Logs = append(c.Logs, Log{RequestID: c.After.RequestID, From: c.After.Status, To: s, OccurredAt: at, EndsAt: c.After.EndsAt})
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

// Created is the creation of a request as Received.
func (r *Request) Created() Change {
	return Change{After: *r, Logs: []Log{{RequestID: r.RequestID, To: r.Status, OccurredAt: r.StatusAt, EndsAt: r.EndsAt}}}
}

// Queued is the change after the queue has taken the message.
func (r *Request) Queued(now int64) Change {
	c := r.change()
	c.become(Queued, now)
	return c
}

// ensureStarted passes through the statuses that no other process has written.
func (c *Change) ensureStarted(now int64) {
	if c.After.Status == Received {
		c.become(Queued, now)
	}
	if c.After.Status == Queued {
		c.become(Processing, now)
	}
}

// Settled is the end of a request by the message with a SequenceNumber.
func (r *Request) Settled(now int64, s Status, code ResultCode, sequenceNumber string) Change {
	c := r.change()
	c.ensureStarted(now)
	c.After.QueueSeq = QueueSeq(sequenceNumber)
	c.end(now, s, code)
	return c
}

// Entered makes a lottery request an entry, by the message with a SequenceNumber. It gets its
// result at the announcement, by Ended.
func (r *Request) Entered(now int64, sequenceNumber string) Change {
	c := r.change()
	c.ensureStarted(now)
	c.After.QueueSeq = QueueSeq(sequenceNumber)
	c.After.EnteredAt = max(now, c.After.StatusAt)
	return c
}

// Withdrawn is the end of a lottery request by its user, entered or not.
func (r *Request) Withdrawn(now int64) Change {
	c := r.change()
	c.After.EnteredAt = 0
	c.end(now, Rejected, RejectedWithdrawn)
	return c
}

// Ended is the end of a request without processing: nothing is left, or it cannot be queued; or the
// result of an entry.
func (r *Request) Ended(now int64, s Status, code ResultCode) Change {
	c := r.change()
	c.end(now, s, code)
	return c
}

// end clears what failed attempts have left, unless the request fails.
func (c *Change) end(now int64, s Status, code ResultCode) {
	c.become(s, now)
	c.After.ResultCode = code
	if s != FailedFinal {
		c.After.FailureClass, c.After.ErrorCode, c.After.ErrorMessage = "", "", ""
	}
}

// Failure describes a failed attempt.
type Failure struct {
	Class FailureClass
	// Code is short and public, Message a hint for operators.
	Code, Message string
}

func (c *Change) failure(f Failure) {
	c.After.FailureClass, c.After.ErrorCode, c.After.ErrorMessage = f.Class, f.Code, shorten(f.Message)
}

// Attempted counts a failed attempt, or one that may end the process.
func (r *Request) Attempted(now int64, f Failure) Change {
	c := r.change()
	c.ensureStarted(now)
	c.After.Attempts++
	c.failure(f)
	return c
}

// Failed is the end of a request that cannot be processed.
func (r *Request) Failed(now int64, code ResultCode, f Failure) Change {
	c := r.change()
	c.ensureStarted(now)
	c.failure(f)
	c.end(now, FailedFinal, code)
	return c
}

// Requeued gives a request that has not ended a new generation: its earlier messages are dropped.
func (r *Request) Requeued() Change {
	c := r.change()
	c.After.Gen++
	return c
}

// Redriven begins a failed request anew, under a new generation.
func (r *Request) Redriven(now int64) Change {
	c := r.change()
	c.become(Queued, now)
	c.After.Gen++
	c.After.Attempts, c.After.FinishedAt, c.After.QueueSeq = 0, 0, ""
	c.After.ResultCode, c.After.FailureClass, c.After.ErrorCode, c.After.ErrorMessage = "", "", "", ""
	return c
}

// queueSeqDigits covers SQS's 128-bit SequenceNumbers.
const queueSeqDigits = 39

// QueueSeq pads a SequenceNumber; empty stays empty.
func QueueSeq(sequenceNumber string) string {
	if sequenceNumber == "" || len(sequenceNumber) >= queueSeqDigits {
		return sequenceNumber
	}
	return strings.Repeat("0", queueSeqDigits-len(sequenceNumber)) + sequenceNumber
}

// shorten cuts a message at a character.
func shorten(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxErrorMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxErrorMessage], "")
}
