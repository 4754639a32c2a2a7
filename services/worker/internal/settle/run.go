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
	// handleTimeout bounds the work on one receipt. It is below the shortest useful visibility; a
	// message that comes again meanwhile is harmless.
	handleTimeout = 20 * time.Second
	// restAfterError is the pause after the queue did not answer, and between two probes of a store that
	// does not.
	restAfterError = time.Second
	// holdFor keeps messages hidden until the next probe of a store that does not answer. If the process
	// dies, others receive them after it.
	holdFor      = 10 * time.Second
	probeTimeout = 3 * time.Second
)

// Run receives and settles with a number of parallel receivers until ctx ends. What was received is
// finished. While the store does not answer, each receiver keeps what it has.
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
		for errors.Is(err, ErrStoreAway) {
			s.log.WarnContext(ctx, "requests not settled, the store does not answer", "messages", len(batch), "error", err)
			if !s.awaitStore(ctx, from, batch) {
				return
			}
			err = s.handle(ctx, batch, handle)
		}
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "requests not settled, trying again", "error", err)
			loop.Sleep(ctx, restAfterError)
		}
	}
}

// awaitStore keeps a batch hidden from the other receivers until the store answers; false: ctx has
// ended. Each of them would receive what is released, and SQS makes dead letters of messages that
// were received too often.
func (s *Settler) awaitStore(ctx context.Context, from Queue, batch []promotion.Delivery) bool {
	hold := func(ctx context.Context, d time.Duration) {
		if err := from.Release(ctx, batch, d); err != nil { // they may come again, which is harmless
			s.log.WarnContext(ctx, "messages not kept", "error", err)
		}
	}
	for loop.Sleep(ctx, restAfterError) {
		if s.probe(ctx) == nil {
			return true
		}
		hold(ctx, holdFor)
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
