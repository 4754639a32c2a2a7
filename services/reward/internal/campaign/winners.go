package campaign

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

// Group is the Kafka consumer group in which this service reads the winners of promotions.
const Group = "reward-service-group"

// Winner is a request (an application to a promotion) that has won.
type Winner struct {
	RequestID, PromotionID, MemberID string
	At                               time.Time
}

// Announcement is a winner with the key of the Kafka event that announced the win.
type Announcement struct {
	Winner

	EventKey string
}

// WinnerStore stores the winners of promotions and their rewards.
type WinnerStore interface {
	// Announce stores winners, once per EventKey, and rewards them in the campaigns of their
	// promotions.
	Announce(ctx context.Context, winners []Announcement) (rewarded int, err error)
	// RewardEarlier rewards some of the winners that were announced before their campaign was created.
	// more reports that further ones may be left.
	RewardEarlier(ctx context.Context) (rewarded int, more bool, err error)
}

// Winners rewards the winners of promotions.
type Winners struct {
	store       WinnerStore
	wakePayouts func()
}

// NewWinners makes Winners, which calls wakePayouts after winners have earned rewards.
func NewWinners(store WinnerStore, wakePayouts func()) *Winners {
	return &Winners{store: store, wakePayouts: wakePayouts}
}

// Announce rewards winners, each once, however often it is called with the same winner.
func (w *Winners) Announce(ctx context.Context, winners []Announcement) error {
	rewarded, err := w.store.Announce(ctx, winners)
	if err == nil && rewarded > 0 {
		w.wakePayouts()
	}
	return err
}

// EarlierWinnersWorker returns the worker that rewards winners who were announced before their
// campaign was created.
func (w *Winners) EarlierWinnersWorker(log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		return loop.Every(ctx, earlierWinnersEvery, func(ctx context.Context) {
			for ctx.Err() == nil {
				rewarded, more, err := w.store.RewardEarlier(ctx)
				if err != nil && ctx.Err() == nil {
					log.WarnContext(ctx, "earlier winners not rewarded, trying again", "error", err)
				}
				if rewarded > 0 {
					w.wakePayouts()
				}
				if err != nil || !more {
					return
				}
			}
		})
	}
}

const earlierWinnersEvery = time.Second
