package settle

import (
	"context"
	"errors"
	"sync"
	"time"

	"urr.guru/pkg/loop"
	"urr.guru/pkg/promotion"
)

const (
	// handleTimeout is the time limit of the work on one batch. It is below the shortest useful
	// visibility timeout of the queue; a message that is delivered again meanwhile does no harm.
	handleTimeout = 20 * time.Second
	// errorPause is the pause after a failed call of the queue, and between two probes of the store.
	errorPause = time.Second
	// outageHold is how long messages stay hidden between two probes of the store. If the process
	// dies, other processes receive them after that time.
	outageHold   = 10 * time.Second
	probeTimeout = 3 * time.Second
)

// Run returns a worker that receives and processes messages, with a number of parallel receivers,
// until ctx ends. Batches received before that are handled to their end; later ones are released.
// While the store does not answer, each receiver keeps its batch.
func (s *Settler) Run(parallel int) func(context.Context) error {
	return func(ctx context.Context) error {
		var work sync.WaitGroup
		for range parallel {
			work.Go(func() { s.receive(ctx, s.queue, s.Handle) })
		}
		work.Go(func() { s.receive(ctx, s.dead, s.HandleDead) })
		work.Wait()
		return nil
	}
}

func (s *Settler) receive(ctx context.Context, from Queue, handle func(context.Context, []promotion.Delivery) error) {
	for ctx.Err() == nil {
		batch, err := from.Receive(ctx)
		if ctx.Err() != nil && len(batch) > 0 {
			s.hide(context.WithoutCancel(ctx), from, batch, 0) // another process handles them at once
			return
		}
		if err == nil && len(batch) > 0 {
			err = s.handleWithTimeout(ctx, batch, handle)
		}
		for errors.Is(err, ErrStoreUnavailable) {
			s.log.WarnContext(ctx, "requests not settled, the store does not answer", "messages", len(batch), "error", err)
			if !s.awaitStore(ctx, from, batch) {
				return
			}
			err = s.handleWithTimeout(ctx, batch, handle)
		}
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "requests not settled, trying again", "error", err)
			loop.Sleep(ctx, errorPause)
		}
	}
}

// awaitStore keeps a batch hidden from the other receivers until the store answers; it returns
// false when ctx has ended. Released messages would be received again at once, and SQS makes dead
// letters of messages that were received too often.
func (s *Settler) awaitStore(ctx context.Context, from Queue, batch []promotion.Delivery) bool {
	for loop.Sleep(ctx, errorPause) {
		if s.probe(ctx) == nil {
			return true
		}
		s.hide(ctx, from, batch, outageHold)
	}
	s.hide(context.WithoutCancel(ctx), from, batch, 0)
	return false
}

// hide keeps messages hidden from the other receivers for a time from now on. After an error they
// may be delivered earlier, which is harmless, or later.
func (s *Settler) hide(ctx context.Context, from Queue, batch []promotion.Delivery, d time.Duration) {
	if err := from.Release(ctx, batch, d); err != nil {
		s.log.WarnContext(ctx, "messages not hidden, or not released", "after", d.String(), "error", err)
	}
}

func (s *Settler) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.store.Ping(ctx)
}

func (s *Settler) handleWithTimeout(ctx context.Context, batch []promotion.Delivery, handle func(context.Context, []promotion.Delivery) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handleTimeout)
	defer cancel()
	return handle(ctx, batch)
}
