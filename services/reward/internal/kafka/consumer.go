// Package kafka reads from Kafka which requests (applications to promotions) have succeeded.
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
	// Announce rewards each winner once, however often it is called with the same winner.
	Announce(ctx context.Context, all []campaign.Announcement) error
}

// batchSize is the most winners in one transaction.
const batchSize = 100

var errIncomplete = errors.New("a request that succeeded names no request, event or user")

// NewConsumer makes the consumer of requests that have succeeded.
func NewConsumer(cfg kafka.Config, a Announcer, log *slog.Logger) (*kafka.Consumer, error) {
	return kafka.NewConsumer(cfg, campaign.Group, []string{events.Requests}, kafka.Batch(batchSize, func(ctx context.Context, recs []kafka.Record) error {
		return announceWinners(ctx, a, recs)
	}), log)
}

func announceWinners(ctx context.Context, a Announcer, recs []kafka.Record) error {
	var all []campaign.Announcement
	for _, rec := range recs {
		if rec.Type != events.RequestSucceeded {
			continue
		}
		var e eventsv1.RequestEvent
		if err := kafka.Decode(rec, &e); err != nil {
			return err
		}
		if e.GetRequestId() == "" || e.GetEventId() == "" || e.GetUserId() == "" {
			return kafka.Poison(errIncomplete)
		}
		all = append(all, campaign.Announcement{EventKey: rec.EventID, Winner: campaign.Winner{
			RequestID: e.GetRequestId(), PromotionID: e.GetEventId(), MemberID: e.GetUserId(), At: e.GetOccurredAt().AsTime(),
		}})
	}
	if len(all) == 0 {
		return nil
	}
	return a.Announce(ctx, all)
}
