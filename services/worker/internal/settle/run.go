package settle

import (
	"context"
	"errors"
	"sync"
	"time"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/loop"
)

const (
	// handleTimeout bounds the work on one receipt. It is below the shortest useful visibility; a
	// message that comes again meanwhile is harmless.
	handleTimeout = 20 * time.Second
	// restAfterError is the pause after the queue did not answer, and between two probes of a store that
	// does not.
	restAfterError = time.Second
)

// Run receives and settles with a number of parallel receivers until ctx ends. What was received is
// finished. While the store does not answer, nothing is received: messages would only use up their
// receipts.
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

func (s *Settler) receive(ctx context.Context, from Queue, handle func(context.Context, []asyncevent.Delivery) error) {
	for ctx.Err() == nil {
		batch, err := from.Receive(ctx)
		if err == nil && len(batch) > 0 {
			err = s.handle(ctx, batch, handle)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.log.WarnContext(ctx, "requests not settled, trying again", "error", err)
		loop.Sleep(ctx, restAfterError)
		for errors.Is(err, ErrStoreAway) && s.store.Ping(ctx) != nil {
			if !loop.Sleep(ctx, restAfterError) {
				return
			}
		}
	}
}

func (s *Settler) handle(ctx context.Context, batch []asyncevent.Delivery, handle func(context.Context, []asyncevent.Delivery) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), handleTimeout)
	defer cancel()
	return handle(ctx, batch)
}
