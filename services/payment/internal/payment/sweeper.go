package payment

import (
	"context"
	"errors"
	"sync"
	"time"

	"urr.guru/pkg/loop"
)

const (
	sweepEvery = time.Second
	sweepBatch = 32
	// sweepers is how many payments or refunds of a lane one replica processes at the same time.
	sweepers = 16
)

// Sweep processes due work until ctx ends: charges with unknown outcomes, references to release,
// expired payments and refunds, each kind in its own lane. Any number of replicas may sweep: each
// skips what another has leased.
func (s *Service) Sweep(ctx context.Context) error {
	var lanes sync.WaitGroup
	for _, lane := range []Lane{Expiries, Releases, Charges, Looks} {
		lanes.Go(func() { s.runLane(ctx, nil, func() bool { return s.sweepPayments(ctx, lane) }) })
	}
	lanes.Go(func() { s.chargePages(ctx) })
	for lane := range refundLanes {
		lanes.Go(func() { s.runLane(ctx, s.wake[lane], func() bool { return s.sweepRefunds(ctx, lane) }) })
	}
	lanes.Wait()
	return nil
}

// runLane sweeps a lane every second and when it is woken; at once if the last sweep was full.
func (s *Service) runLane(ctx context.Context, wake <-chan struct{}, sweep func() (full bool)) {
	for ctx.Err() == nil {
		if !sweep() {
			loop.SleepOrWake(ctx, sweepEvery, wake)
		}
	}
}

// SweepOnce processes due work, one lane after the other. full means that more may be due.
func (s *Service) SweepOnce(ctx context.Context) (full bool) {
	for _, lane := range []Lane{Expiries, Releases, Pages, Charges, Looks} {
		full = s.sweepPayments(ctx, lane) || full
	}
	for _, lane := range []RefundLane{Claims, Compensations, Requests, Cancellations} {
		full = s.sweepRefunds(ctx, lane) || full
	}
	return full
}

func (s *Service) sweepPayments(ctx context.Context, lane Lane) (full bool) {
	due, now := s.claimDue(ctx, lane, sweepBatch)
	forEach(due, func(p Payment) { s.advance(ctx, p, now) })
	return len(due) == sweepBatch
}

// chargePages processes the lane Pages until ctx ends. Buyers wait for these charges, so each
// starts as soon as one of the PagesAtOnce slots is free, even if other charges are slow.
func (s *Service) chargePages(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	slots := make(chan struct{}, s.opts.PagesAtOnce)
	for ctx.Err() == nil {
		slots <- struct{}{} // waits for a free slot
		<-slots
		free := cap(slots) - len(slots)
		due, now := s.claimDue(ctx, Pages, free)
		for _, p := range due {
			slots <- struct{}{}
			work.Go(func() {
				defer func() { <-slots }()
				s.advance(ctx, p, now)
			})
		}
		if len(due) < free {
			loop.SleepOrWake(ctx, sweepEvery, s.back)
		}
	}
}

func (s *Service) claimDue(ctx context.Context, lane Lane, n int) ([]Payment, time.Time) {
	due, now, err := s.store.ClaimDue(ctx, lane, n, leaseTime)
	if err != nil && ctx.Err() == nil {
		s.log.WarnContext(ctx, "due payments not read", "lane", lane, "error", err)
	}
	return due, now
}

func (s *Service) advance(ctx context.Context, p Payment, now time.Time) {
	err := s.advanceDue(WithUrgency(ctx, p.urgency()), p, now)
	if err == nil || ctx.Err() != nil {
		return
	}
	log := s.log.WarnContext
	if errors.Is(err, ErrNoTurn) { // as often as a provider's limits are used up; a metric counts it
		log = s.log.DebugContext
	}
	log(ctx, "payment not settled, trying again", "payment_id", p.ID, "error", err)
}

// sweepRefunds makes the next step of each due refund in a lane. full: more may be due.
func (s *Service) sweepRefunds(ctx context.Context, lane RefundLane) (full bool) {
	var due []DueRefund
	for _, cause := range refundLanes[lane] {
		claimed, err := s.store.ClaimRefunds(ctx, cause, lane == Claims, sweepBatch-len(due), leaseTime)
		if err != nil {
			if ctx.Err() == nil {
				s.log.WarnContext(ctx, "due refunds not read", "lane", lane, "error", err)
			}
			return false
		}
		if due = append(due, claimed...); len(due) == sweepBatch {
			break
		}
	}
	forEach(due, func(d DueRefund) { s.stepRefund(ctx, d) })
	return len(due) == sweepBatch
}

// forEach runs fn on every item, for up to sweepers items at a time, and waits for all.
func forEach[T any](items []T, fn func(T)) {
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
