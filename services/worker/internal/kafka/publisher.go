// Package kafka publishes the ends of requests to the topic of request events.
package kafka

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"urr.guru/pkg/kafka"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/wire"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/worker/internal/announce"
)

// source is the value of the header ce_source.
const source = "worker"

var _ announce.Publisher = (*Publisher)(nil)

// Producer publishes records to Kafka; kafka.Producer is one.
type Producer interface {
	Publish(ctx context.Context, recs ...kafka.Record) error
}

// Publisher publishes the ends of requests.
type Publisher struct{ producer Producer }

// New returns a Publisher.
func New(p Producer) *Publisher { return &Publisher{p} }

func (p *Publisher) Publish(ctx context.Context, rows []promotion.Announcement) error {
	recs := make([]kafka.Record, len(rows))
	for i, a := range rows {
		at := time.UnixMilli(a.Version)
		typ := kafkaEventType(a.Status)
		value, err := wire.Marshal(&eventsv1.RequestEvent{
			Type: typ, RequestId: a.RequestID, EventId: a.EventID, UserId: a.UserID, EventType: string(a.EventType), Status: string(a.Status),
			ResultCode: string(a.ResultCode), QueueSeq: a.QueueSeq, Version: a.Version, OccurredAt: timestamppb.New(at),
		})
		if err != nil {
			return err
		}
		recs[i] = kafka.Record{Topic: events.Requests, Key: []byte(a.RequestID), Value: value, Headers: kafka.EventHeaders(a.ID, source, typ, at)}
	}
	return p.producer.Publish(ctx, recs...)
}

func kafkaEventType(s promotion.Status) string {
	switch s {
	case promotion.Succeeded:
		return events.RequestSucceeded
	case promotion.Rejected:
		return events.RequestRejected
	default:
		return events.RequestFailed
	}
}
