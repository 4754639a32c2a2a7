package kafka

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// Headers of CloudEvents 1.0 in Kafka's binary mode, and those that this package adds itself.
const (
	HeaderID          = "ce_id"
	HeaderSource      = "ce_source"
	HeaderType        = "ce_type"
	HeaderSpecVersion = "ce_specversion"
	HeaderTime        = "ce_time"
	HeaderContentType = "content-type"
	// HeaderGroup has the name of the consumer group that made a record a dead letter.
	HeaderGroup = "group"
	// HeaderError is the error because of which a record became a dead letter.
	HeaderError = "error"
	// HeaderSignature is the signature of the service that has written a record (see signature.go).
	HeaderSignature = "signature"
	// HeaderOrigin is where a dead letter was first read: topic/partition/offset.
	HeaderOrigin = "origin"
)

// Record is a Kafka message. Partition, Offset, EventID and Type are set on consumed records only;
// the partition of a published record follows from its key.
type Record struct {
	Topic     string
	Partition int32
	Offset    int64
	// ReadFrom is the topic of Partition and Offset: Topic, or that of the group's redriven letters.
	ReadFrom string
	Key      []byte
	Value    []byte
	Headers  map[string]string
	// EventID is the header ce_id, by which consumers recognise duplicates; without the header it is
	// topic/partition/offset, which is stable too.
	EventID string
	Type    string    // the header ce_type, "" without it
	Time    time.Time // the record's timestamp
}

// EventHeaders returns the CloudEvents headers of an event whose value is JSON.
func EventHeaders(id uuid.UUID, source, eventType string, at time.Time) map[string]string {
	return map[string]string{
		HeaderID:          id.String(),
		HeaderSource:      source,
		HeaderType:        eventType,
		HeaderSpecVersion: "1.0",
		HeaderTime:        at.UTC().Format(time.RFC3339Nano),
		HeaderContentType: "application/json",
	}
}

// Decode reads the JSON in a record into m. It skips unknown fields, since producers are upgraded
// first. Any other mismatch is an error made by Poison.
func Decode(rec Record, m proto.Message) error {
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(rec.Value, m); err != nil {
		return Poison(fmt.Errorf("decode %s: %w", m.ProtoReflect().Descriptor().FullName(), err))
	}
	return nil
}

type poisonError struct{ err error }

func (e *poisonError) Error() string { return "poison: " + e.err.Error() }
func (e *poisonError) Unwrap() error { return e.err }

// Poison marks an error as permanent: the record can never be processed and goes to the dead-letter
// topic at once. Poison(nil) is nil.
func Poison(err error) error {
	if err == nil {
		return nil
	}
	return &poisonError{err}
}

// IsPoison reports whether an error was made by Poison.
func IsPoison(err error) bool {
	var p *poisonError
	return errors.As(err, &p)
}

// FromKgo converts a record of the Kafka library kgo.
func FromKgo(r *kgo.Record) Record {
	headers := make(map[string]string, len(r.Headers))
	for _, h := range r.Headers {
		if _, repeated := headers[h.Key]; !repeated { // the first is the signed one
			headers[h.Key] = string(h.Value)
		}
	}
	id := headers[HeaderID]
	if id == "" {
		id = originOf(r)
	}
	return Record{
		Topic: r.Topic, ReadFrom: r.Topic, Partition: r.Partition, Offset: r.Offset, Key: r.Key, Value: r.Value,
		Headers: headers, EventID: id, Type: headers[HeaderType], Time: r.Timestamp,
	}
}

func (r Record) toKgo() *kgo.Record {
	out := &kgo.Record{Topic: r.Topic, Key: r.Key, Value: r.Value, Timestamp: r.Time, Headers: make([]kgo.RecordHeader, 0, len(r.Headers)+2)}
	for k, v := range r.Headers {
		out.Headers = append(out.Headers, kgo.RecordHeader{Key: k, Value: []byte(v)})
	}
	return out
}

// originOf returns where a record was read. Config.topicOf reads the topic.
func originOf(r *kgo.Record) string { return fmt.Sprintf("%s/%d/%d", r.Topic, r.Partition, r.Offset) }

// topicOf returns the topic, without prefix, to which a record belongs that a group has read from a
// topic: for a redriven letter, the one in which it was read first.
func (c Config) topicOf(r *kgo.Record, readFrom, group string) string {
	if readFrom != RedriveTopic(group) {
		return readFrom
	}
	topic, _, _ := strings.Cut(string(headerOf(r, HeaderOrigin)), "/")
	return c.withoutPrefix(topic)
}
