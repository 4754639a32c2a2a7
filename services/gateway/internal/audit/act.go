package audit

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/ids"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/wire"
	"urr.guru/proto/events"

	eventsv1 "urr.guru/proto/gen/urr/events/v1"
)

// maxBody is the longest body kept in a record, in bytes without insignificant spaces. Of a longer
// body only a digest is kept. The routes accept no longer ones, so no act can hide what it changed.
const maxBody = 64 << 10

const source = "gateway"

// Act is a call by which an operator changes something, or reads personal data.
type Act struct {
	ID uuid.UUID
	At time.Time
	// UserID is the operator's id. Address is the client's IP address.
	UserID, Address string
	// Route is the pattern of the route, such as /a/{id}; Path is the path of this request.
	Method, Route, Path string
	// EventID is the id of the event in the path; empty if the path has none.
	EventID   string
	RequestID string
	Body      []byte
	// ServedWithoutKafka: the act stops or slows a sale, or shuts users out.
	ServedWithoutKafka bool

	// acted is what actedEvent has made.
	acted *eventsv1.AuditEvent
}

// Outcome is the answer that the operator gets.
type Outcome struct {
	Status int    // the HTTP status
	Code   string // the error's code, "" after success
	// BodySHA256 is the hex digest of a streamed body, "" for all others, which the act has.
	BodySHA256 string
	// Entries is what an upload has changed; nil without one.
	Entries *eventsv1.EntryCounts
}

// actedEvent returns the Kafka event that is published before the request is forwarded. It reads the
// body once.
func (a *Act) actedEvent() *eventsv1.AuditEvent {
	if a.acted == nil {
		a.acted = a.newActedEvent()
	}
	return a.acted
}

func (a *Act) newActedEvent() *eventsv1.AuditEvent {
	e := &eventsv1.AuditEvent{
		Type: events.OperatorActed, ActId: a.ID.String(), UserId: a.UserID, Address: a.Address, Method: a.Method, Route: a.Route, Path: a.Path,
		EventId: a.EventID, RequestId: a.RequestID, OccurredAt: timestamppb.New(a.At),
	}
	if len(a.Body) == 0 {
		return e
	}
	sum := sha256.Sum256(a.Body)
	e.BodySha256 = hex.EncodeToString(sum[:])
	body, ok := parseJSON(a.Body)
	if !ok {
		return e // a malformed body: the call is going to be refused
	}
	if members, ok := body.(map[string]any); ok && e.EventId == "" {
		if event, ok := members["eventId"].(string); ok && ids.ValidEventID(event) {
			e.EventId = event
		}
	}
	if kept := withoutSecrets(a.Body, body); len(kept) <= maxBody {
		e.Body = string(kept)
	}
	return e
}

// endedEvent returns the Kafka event with the act's outcome. It is published after the response.
func (a *Act) endedEvent(o Outcome, at time.Time) *eventsv1.AuditEvent {
	e := proto.CloneOf(a.actedEvent())
	e.EventId = cmp.Or(a.EventID, e.GetEventId())                                                    // it may have been found since
	e.Type, e.Status, e.EndedAt = events.OperatorActEnded, new(int32(o.Status)), timestamppb.New(at) //nolint:gosec // an HTTP status
	if o.Code != "" {
		e.Code = &o.Code
	}
	if o.BodySHA256 != "" {
		e.BodySha256 = o.BodySHA256
	}
	e.Entries = o.Entries
	return e
}

// parseJSON reads a JSON value. Numbers keep their digits.
func parseJSON(raw []byte) (body any, ok bool) {
	if !utf8.Valid(raw) {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	ok = d.Decode(&body) == nil && !d.More()
	return body, ok
}

// secretNames are parts of names, in lower case. A value whose name contains one is not kept.
var secretNames = []string{"secret", "password", "token", "credential"} //nolint:gochecknoglobals // a constant table

// withoutSecrets returns a JSON body without insignificant spaces. It replaces the values of fields
// that may be secret.
func withoutSecrets(raw []byte, body any) []byte {
	if !redact(body) {
		var compact bytes.Buffer
		if json.Compact(&compact, raw) != nil {
			return nil // cannot happen: it was JSON before
		}
		return compact.Bytes()
	}
	kept, err := json.Marshal(body)
	if err != nil {
		return nil // cannot happen: it was JSON before
	}
	return kept
}

// redact replaces secret values in a JSON value by "***", and reports whether there were any.
func redact(value any) (found bool) {
	switch v := value.(type) {
	case map[string]any:
		for name, member := range v {
			if isSecret(name) {
				v[name], found = "***", true
			} else if redact(member) {
				found = true
			}
		}
	case []any:
		for _, member := range v {
			found = redact(member) || found
		}
	}
	return found
}

func isSecret(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretNames, func(part string) bool { return strings.Contains(name, part) })
}

// newRecord makes the signed Kafka record of an event.
func (l *Log) newRecord(e *eventsv1.AuditEvent) (kafka.Record, error) {
	value, err := wire.Marshal(e)
	if err != nil {
		return kafka.Record{}, fmt.Errorf("audit event: %w", err)
	}
	rec, err := newKafkaRecord(e, value)
	if err != nil {
		return kafka.Record{}, err
	}
	return l.kafka.Sign(rec), nil
}

// readRecord makes the Kafka record of an event that was kept in Redis while Kafka was unavailable. It
// fails for one that no gateway has signed.
func (l *Log) readRecord(entry streamEntry) (kafka.Record, error) {
	var e eventsv1.AuditEvent
	if err := kafka.Decode(kafka.Record{Value: entry.value}, &e); err != nil {
		return kafka.Record{}, err
	}
	rec, err := newKafkaRecord(&e, entry.value)
	if err != nil {
		return kafka.Record{}, err
	}
	rec.Headers[kafka.HeaderSignature] = entry.signature
	return rec, l.kafka.Verify(rec)
}

func newKafkaRecord(e *eventsv1.AuditEvent, value []byte) (kafka.Record, error) {
	id, err := uuid.Parse(e.GetActId())
	if err != nil {
		return kafka.Record{}, fmt.Errorf("audit event: actId: %w", err)
	}
	at := e.GetOccurredAt().AsTime()
	if e.GetType() == events.OperatorActEnded { // the two Kafka events of an act need different ids
		id, at = uuid.NewSHA1(id, []byte(e.GetType())), e.GetEndedAt().AsTime()
	}
	return kafka.Record{
		Topic: events.Audit, Key: []byte(e.GetUserId()), Value: value, Headers: kafka.EventHeaders(id, source, e.GetType(), at),
	}, nil
}
