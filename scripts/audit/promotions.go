package audit

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/twmb/franz-go/pkg/kgo"

	"urr.guru/pkg/dynamo"
	"urr.guru/proto/events"
	"urr.guru/scripts/internal/tables"
	"urr.guru/scripts/internal/topics"
	"urr.guru/scripts/platform"
)

// Promotions reads promotions from AsyncEventTable and the topic request-events. It uses none of
// the services' code, only the names of their attributes.
type Promotions struct {
	db      *dynamodb.Client
	table   string
	brokers []string
	topic   string
	// read returns all records of a topic. It is topics.Read, except in tests.
	read func(ctx context.Context, brokers []string, topic string) ([]*kgo.Record, error)
}

// OpenPromotions connects to the table and the topic of a running platform.
func OpenPromotions(w platform.Wiring) *Promotions {
	return &Promotions{
		db:    tables.Open(w),
		table: w.DynamoDBPrefix + "-AsyncEventTable", brokers: w.KafkaBrokers, topic: w.KafkaPrefix + events.Requests, read: topics.Read,
	}
}

// Promotion has everything that the table and the topic contain about one promotion.
type Promotion struct {
	EventID, EventType string
	// Total is the number of places. Remaining is how many of them are left, if Limited is true.
	Total, Remaining int64
	Limited          bool
	// Requests are in the order in which they were accepted.
	Requests []EventRequest
	// Counts has the promotion's counters by attribute. Each is the sum over the COUNTS items.
	Counts map[string]int64
	// Locks has, by user, the request id in the user's lock.
	Locks map[string]string
	// DeadLetters has the ids of the requests in the promotion's dead letters; an id may be repeated.
	DeadLetters []string
	// Markers and Outbox are the sort keys of items for work that is still to be done. Indexed are the
	// keys of items that are in an index although they are no requests.
	Markers, Outbox, Indexed []string
	// Announced has the Kafka events of the topic, by request id.
	Announced map[string][]RequestEvent
}

// EventRequest is the stored item of a request, with its log of statuses.
type EventRequest struct {
	ID, User, Status, ResultCode, ErrorCode string
	StatusAt, RequestedAt, Gen, Attempts    int64
	// QueueSeq is the request's position in the queue: the SequenceNumber of the message by which it
	// was decided, with leading zeros, a point, and the request's index in the message.
	QueueSeq string
	Logs     []StatusLog
}

// StatusLog is one entry in the log of a request: a change of its status.
type StatusLog struct {
	SK, From, To string
	At           int64
}

// RequestEvent is a Kafka event in the topic request-events.
type RequestEvent struct {
	ID         string `json:"-"` // header ce_id
	Type       string `json:"type"`
	RequestID  string `json:"requestId"`
	EventID    string `json:"eventId"`
	Status     string `json:"status"`
	ResultCode string `json:"resultCode"`
	QueueSeq   string `json:"queueSeq"`
	Version    int64  `json:"version"`
}

// Get reads all items and Kafka events of a promotion. applied are users who may have a lock
// although they have no request.
func (s *Promotions) Get(ctx context.Context, eventID string, applied ...string) (*Promotion, error) {
	items, err := s.readItems(ctx, eventID, applied)
	if err != nil {
		return nil, fmt.Errorf("promotion %s: %w", eventID, unavailable(dynamoStore, err))
	}
	p, err := promotionFromItems(eventID, items)
	if err != nil {
		return nil, err
	}
	records, err := s.read(ctx, s.brokers, s.topic)
	if err != nil {
		return nil, fmt.Errorf("events of promotion %s: %w", eventID, unavailable(kafkaStore, err))
	}
	p.Announced = map[string][]RequestEvent{}
	for _, r := range records {
		e := RequestEvent{ID: recordHeader(r, "ce_id")}
		if err := json.Unmarshal(r.Value, &e); err != nil {
			return nil, fmt.Errorf("event %s of %s, maybe of another commit (run make reset): %w", e.ID, s.topic, err)
		}
		if e.EventID == eventID {
			p.Announced[e.RequestID] = append(p.Announced[e.RequestID], e)
		}
	}
	return p, nil
}

// Unsettled returns the number of requests without a final status. It reads only the COUNTS items.
func (s *Promotions) Unsettled(ctx context.Context, eventID string) (int64, error) {
	items, err := dynamo.BatchGet(ctx, s.db, s.table, countsKeys(eventID))
	if err != nil {
		return 0, fmt.Errorf("figures of %s: %w", eventID, unavailable(dynamoStore, err))
	}
	p := Promotion{Counts: map[string]int64{}}
	for _, item := range items {
		p.addCounts(&dynamo.Reader{Item: item})
	}
	unsettled := p.Counts["accepted"]
	for name, n := range p.Counts {
		if strings.HasPrefix(name, resultPrefix) {
			unsettled -= n
		}
	}
	return unsettled, nil
}

func promotionFromItems(eventID string, items []dynamo.Item) (*Promotion, error) {
	p := &Promotion{EventID: eventID, Counts: map[string]int64{}, Locks: map[string]string{}}
	logs := map[string][]StatusLog{}
	for _, item := range items {
		d := &dynamo.Reader{Item: item}
		pk, sk := d.String("PK"), d.String("SK")
		id, isRequest := strings.CutPrefix(pk, "REQ#")
		switch {
		case isRequest && sk == "META":
			if d.String("eventId") == eventID {
				p.Requests = append(p.Requests, EventRequest{
					ID: id, User: d.String("userId"), Status: d.String("status"), ResultCode: d.String("resultCode"), ErrorCode: d.String("errorCode"),
					StatusAt: d.Number("statusAt"), RequestedAt: d.Number("requestedAt"), Gen: d.Number("gen"), Attempts: d.Number("attempts"),
					QueueSeq: d.String("queueSeq"),
				})
			}
		case isRequest:
			logs[id] = append(logs[id], StatusLog{SK: sk, From: d.String("fromStatus"), To: d.String("toStatus"), At: d.Number("occurredAt")})
		default:
			p.addItem(pk, sk, d)
		}
		if !(isRequest && sk == "META") && (item["GSI1PK"] != nil || item["GSI2PK"] != nil) {
			p.Indexed = append(p.Indexed, pk+" "+sk)
		}
		if d.Err() != nil {
			return nil, fmt.Errorf("item %s %s: %w", pk, sk, d.Err())
		}
	}
	for i := range p.Requests {
		r := &p.Requests[i]
		r.Logs = logs[r.ID]
		slices.SortFunc(r.Logs, func(a, b StatusLog) int { return strings.Compare(a.SK, b.SK) })
	}
	slices.SortFunc(p.Requests, func(a, b EventRequest) int { return strings.Compare(a.ID, b.ID) }) // UUIDv7 ids sort by time
	return p, nil
}

// addItem adds an item that is neither a request nor a log to p, if it belongs to the promotion.
func (p *Promotion) addItem(pk, sk string, d *dynamo.Reader) {
	switch {
	case pk == "EVENT#"+p.EventID && sk == "CONFIG":
		p.EventType, p.Total = d.String("eventType"), d.Number("capacityTotal")
	case pk == "EVENT#"+p.EventID && sk == "CAPACITY":
		p.Limited, p.Remaining = true, d.Number("capacityRemaining")
	case strings.HasPrefix(pk, "COUNTS#"+p.EventID+"#"):
		p.addCounts(d)
	case strings.HasPrefix(pk, "IDEMP#"+p.EventID+"#"):
		p.Locks[strings.TrimPrefix(pk, "IDEMP#"+p.EventID+"#")] = d.String("requestId")
	case pk == "DLQ#requests" && d.String("eventId") == p.EventID:
		p.DeadLetters = append(p.DeadLetters, d.String("requestId"))
	case strings.HasPrefix(pk, "PENDING#") && d.String("eventId") == p.EventID:
		p.Markers = append(p.Markers, sk)
	case strings.HasPrefix(pk, "OUTBOX#") && strings.Contains(d.String("rows"), `"eventId":"`+p.EventID+`"`):
		p.Outbox = append(p.Outbox, sk)
	}
}

// resultPrefix begins the names of attributes that count the requests with a certain result.
const resultPrefix = "result_"

func (p *Promotion) addCounts(d *dynamo.Reader) {
	for name := range d.Item {
		if name == "accepted" || strings.HasPrefix(name, resultPrefix) {
			p.Counts[name] += d.Number(name)
		}
	}
}
