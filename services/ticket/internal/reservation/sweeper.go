package reservation

import (
	"context"
	"log/slog"
	"time"

	"urr.guru/pkg/loop"
)

const (
	// sweepBatch bounds the holds that one transaction ends, and with them the seats it has locked.
	sweepBatch = 200
	// pruneEvery is after how many sweeps answers that were remembered long enough are forgotten.
	pruneEvery = 60
)

// Due is what a sweeper needs of the store.
type Due interface {
	// ExpireDue ends up to max reservations whose time is over and returns how many. The error also
	// names those that contradict what else the database says, once each time they are looked at.
	ExpireDue(ctx context.Context, max int) (int, error)
	// Inconsistent is the number of such reservations.
	Inconsistent() int
	// Prune forgets the answers whose 24 hours are over.
	Prune(ctx context.Context) error
}

// Sweeper ends holds whose time is over. Nobody waits for it, since the seats of such a hold may be
// taken at once; it is there so that their former holders, the queue and the figures hear of it.
type Sweeper struct {
	Store Due
	Every time.Duration
	// Inconsistent hears after each sweep how many reservations cannot be expired.
	Inconsistent func(int)
	Log          *slog.Logger
}

// Run sweeps until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	sweeps := 0
	return loop.Every(ctx, s.Every, func(ctx context.Context) {
		s.logFailure(ctx, "holds", s.expire(ctx))
		s.Inconsistent(s.Store.Inconsistent())
		if sweeps%pruneEvery == 0 {
			s.logFailure(ctx, "answers", s.Store.Prune(ctx))
		}
		sweeps++
	})
}

// expire ends holds until it finds less than a full batch.
func (s *Sweeper) expire(ctx context.Context) error {
	for ctx.Err() == nil {
		if n, err := s.Store.ExpireDue(ctx, sweepBatch); err != nil || n < sweepBatch {
			return err
		}
	}
	return nil
}

func (s *Sweeper) logFailure(ctx context.Context, what string, err error) {
	if err != nil && ctx.Err() == nil {
		s.Log.WarnContext(ctx, "sweep failed, trying again", "what", what, "error", err)
	}
}
