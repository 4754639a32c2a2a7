package payment

import (
	"context"
	"sync"
	"time"
)

const (
	sweepEvery = time.Second
	pruneEvery = 10 * time.Minute
	sweepBatch = 32
	// sweepers is how many payments or refunds one replica settles at a time.
	sweepers = 16
)

// Sweep settles what nobody else does, until ctx ends: unknown charges, references to release, payments whose time is over, refunds. Any
// number of replicas may do so: what one takes, the others skip.
func (s *Service) Sweep(ctx context.Context) error {
	var pruned time.Time
	for ctx.Err() == nil {
		full := s.sweepPayments(ctx)
		full = s.sweepRefunds(ctx) || full
		if time.Since(pruned) > pruneEvery {
			pruned = time.Now()
			if err := s.store.Prune(ctx); err != nil && ctx.Err() == nil {
				s.log.WarnContext(ctx, "idempotency keys not pruned", "error", err)
			}
		}
		if full {
			continue
		}
		timer := time.NewTimer(sweepEvery)
		select {
		case <-ctx.Done():
		case <-s.wake:
		case <-timer.C:
		}
		timer.Stop()
	}
	return nil
}

func (s *Service) sweepPayments(ctx context.Context) (full bool) {
	due, now, err := s.store.ClaimDue(ctx, sweepBatch, leaseTime)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "due payments not read", "error", err)
		}
		return false
	}
	each(due, func(p Payment) {
		if err := s.settle(ctx, p, now); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "payment not settled, trying again", "payment_id", p.ID, "error", err)
		}
	})
	return len(due) == sweepBatch
}

func (s *Service) sweepRefunds(ctx context.Context) (full bool) {
	due, err := s.refunds.Claim(ctx, sweepBatch, leaseTime)
	if err != nil {
		if ctx.Err() == nil {
			s.log.WarnContext(ctx, "due refunds not read", "error", err)
		}
		return false
	}
	each(due, func(r Refund) {
		if err := s.refund(ctx, r); err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "refund not written, trying again", "payment_id", r.PaymentID, "error", err)
		}
	})
	return len(due) == sweepBatch
}

// each runs fn on every item, several at a time, and waits for all.
func each[T any](items []T, fn func(T)) {
	var work sync.WaitGroup
	slots := make(chan struct{}, sweepers)
	for _, item := range items {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			fn(item)
		})
	}
	work.Wait()
}
