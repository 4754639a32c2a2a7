package campaign

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

// Group is the consumer group of the winners' topic.
const Group = "reward-service-group"

// Winner is a request that has won in a promotion.
type Winner struct {
	RequestID, PromotionID, MemberID string
	At                               time.Time
}

// Announcement is a winner with the key of the Kafka event that announces it.
type Announcement struct {
	Winner

	EventKey string
}

// WinnerStore stores the winners of promotions and their rewards.
type WinnerStore interface {
	// Announce keeps winners, once per event key, and rewards them in the campaigns of their promotions.
	Announce(ctx context.Context, all []Announcement) (rewarded int, err error)
	// RewardEarlier rewards some of the winners that were announced before a campaign was created; more
	// reports that others may be left.
	RewardEarlier(ctx context.Context) (rewarded int, more bool, err error)
}

// Winners rewards the winners of promotions.
type Winners struct {
	store  WinnerStore
	earned func()
}

// NewWinners makes Winners; earned wakes the payouts.
func NewWinners(store WinnerStore, earned func()) *Winners {
	return &Winners{store: store, earned: earned}
}

// Announce rewards winners; it may be repeated.
func (w *Winners) Announce(ctx context.Context, all []Announcement) error {
	rewarded, err := w.store.Announce(ctx, all)
	if err == nil && rewarded > 0 {
		w.earned()
	}
	return err
}

// Sweep returns the worker that rewards earlier winners of new campaigns.
func (w *Winners) Sweep(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, sweepEvery, func(ctx context.Context) {
			for ctx.Err() == nil {
				rewarded, more, err := w.store.RewardEarlier(ctx)
				if err != nil && ctx.Err() == nil {
					log.WarnContext(ctx, "earlier winners not rewarded, trying again", "error", err)
				}
				if rewarded > 0 {
					w.earned()
				}
				if err != nil || !more {
					return
				}
			}
		})
	}
}

const sweepEvery = time.Second
