package reservation

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

// sweepBatch bounds the holds that one transaction ends, and with them the seats it has locked.
const sweepBatch = 200

// Expirer ends reservations whose time is over.
type Expirer interface {
	// ExpireDue ends up to max due reservations and returns how many. The error also names those
	// that contradict other rows, once each time they are tried.
	ExpireDue(ctx context.Context, max int) (int, error)
	// Inconsistent is the number of reservations that contradict other rows, as far as this process
	// has found.
	Inconsistent() int
}

// Sweeper ends holds whose time is over, so that their events are published: for their former
// holders, queue and stats. The seats of such a hold can be taken before it is swept.
type Sweeper struct {
	Expirer Expirer
	Every   time.Duration
	// ObserveInconsistent is called after each sweep with the number of reservations that cannot be
	// expired.
	ObserveInconsistent func(int)
	Log                 *slog.Logger
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	return loop.Every(ctx, s.Every, func(ctx context.Context) {
		if err := s.expire(ctx); err != nil && ctx.Err() == nil {
			s.Log.WarnContext(ctx, "sweep failed, trying again", "what", "holds", "error", err)
		}
		s.ObserveInconsistent(s.Expirer.Inconsistent())
	})
}

// expire ends holds until it finds less than a full batch.
func (s *Sweeper) expire(ctx context.Context) error {
	for ctx.Err() == nil {
		if n, err := s.Expirer.ExpireDue(ctx, sweepBatch); err != nil || n < sweepBatch {
			return err
		}
	}
	return nil
}
