package reservation

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/services/ticket/internal/purchase"
)

// sweepBatch is the most holds that one transaction ends, so that it does not lock too many seats.
const sweepBatch = purchase.EndBatch

// Expirer expires reservations whose time is over.
type Expirer interface {
	// ExpireDue expires up to max reservations whose time is over, and returns their number. The error
	// lists those that it could not expire because they contradict other rows.
	ExpireDue(ctx context.Context, max int) (int, error)
	// Inconsistent returns the number of reservations that this process has found to contradict
	// other rows.
	Inconsistent() int
}

// Sweeper expires holds whose time is over, so that their Kafka events are published. It need not
// be punctual: other users can hold the seats of such a hold before the sweeper has expired it.
type Sweeper struct {
	Expirer Expirer
	Every   time.Duration
	// ObserveInconsistent is called with Expirer.Inconsistent after each sweep.
	ObserveInconsistent func(int)
	Log                 *slog.Logger
}

func (s *Sweeper) Run(ctx context.Context) error {
	return loop.Every(ctx, s.Every, func(ctx context.Context) {
		if err := s.expire(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "sweep failed, trying again", "what", "holds", "error", err)
		}
		s.ObserveInconsistent(s.Expirer.Inconsistent())
	})
}

func (s *Sweeper) expire(ctx context.Context) error {
	for ctx.Err() == nil {
		if n, err := s.Expirer.ExpireDue(ctx, sweepBatch); err != nil || n < sweepBatch {
			return err
		}
	}
	return nil
}
