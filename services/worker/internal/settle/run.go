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
	// handleTimeout bounds the work on one batch. It is below the shortest useful visibility; a
	// message that is delivered again meanwhile does no harm.
	handleTimeout = 20 * time.Second
	// errorPause is the pause after a failed call of the queue, and between two probes of the store.
	errorPause = time.Second
	// outageHold is how long messages stay hidden between two probes of the store. If the process
	// dies, others receive them after that time.
	outageHold   = 10 * time.Second
	probeTimeout = 3 * time.Second
)

// Run receives and settles with a number of parallel receivers until ctx ends. A batch that was
// received is handled to its end. While the store does not answer, each receiver keeps its batch.
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
		if err == nil && len(batch) > 0 {
			err = s.handle(ctx, batch, handle)
		}
		for errors.Is(err, ErrStoreUnavailable) {
			s.log.WarnContext(ctx, "requests not settled, the store does not answer", "messages", len(batch), "error", err)
			if !s.awaitStore(ctx, from, batch) {
				return
			}
			err = s.handle(ctx, batch, handle)
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
	hold := func(ctx context.Context, d time.Duration) {
		if err := from.Release(ctx, batch, d); err != nil { // they may be delivered again, which is harmless
			s.log.WarnContext(ctx, "messages not kept", "error", err)
		}
	}
	for loop.Sleep(ctx, errorPause) {
		if s.probe(ctx) == nil {
			return true
		}
		hold(ctx, outageHold)
	}
	hold(context.WithoutCancel(ctx), 0)
	return false
}

func (s *Settler) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	return s.store.Ping(ctx)
}

func (s *Settler) handle(ctx context.Context, batch []promotion.Delivery, handle func(context.Context, []promotion.Delivery) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handleTimeout)
	defer cancel()
	return handle(ctx, batch)
}
