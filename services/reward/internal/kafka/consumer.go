// Package kafka consumes the outcomes of event requests.
package kafka

import (
	"context"
	"errors"
	"log/slog"

	"urr.guru/pkg/kafka"
	"urr.guru/proto/events"
	eventsv1 "urr.guru/proto/gen/urr/events/v1"
	"urr.guru/services/reward/internal/campaign"
)

// Announcer rewards winners.
type Announcer interface {
	// Announce may be repeated.
	Announce(ctx context.Context, eventKey string, w campaign.Winner) error
}

var errIncomplete = errors.New("a request that succeeded names no request, event or user")

// NewConsumer makes the consumer of requests that have succeeded.
func NewConsumer(cfg kafka.Config, a Announcer, log *slog.Logger) (*kafka.Consumer, error) {
	return kafka.NewConsumer(cfg, campaign.Group, []string{events.Requests}, kafka.Each(func(ctx context.Context, rec kafka.Record) error {
		return handle(ctx, a, rec)
	}), log)
}

func handle(ctx context.Context, a Announcer, rec kafka.Record) error {
	if rec.Type != events.RequestSucceeded {
		return nil
	}
	var e eventsv1.RequestEvent
	if err := kafka.Decode(rec, &e); err != nil {
		return err
	}
	if e.GetRequestId() == "" || e.GetEventId() == "" || e.GetUserId() == "" {
		return kafka.Poison(errIncomplete)
	}
	return a.Announce(ctx, rec.EventID, campaign.Winner{
		RequestID: e.GetRequestId(), PromotionID: e.GetEventId(), MemberID: e.GetUserId(), At: e.GetOccurredAt().AsTime(),
	})
}
