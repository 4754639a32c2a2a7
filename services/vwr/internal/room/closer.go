package room

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"urr.guru/pkg/loop"
)

const (
	closeInterval          = 30 * time.Second // the time between two checks whether the sales of active rooms have ended
	saleTimeout            = time.Second      // bounds one such check
	stopTimeout            = 5 * time.Second  // bounds the write that ends one room
	maxParallelSaleQueries = 8                // bounds the checks in parallel
)

// Sales tells which events exist and whether their sales have ended.
type Sales interface {
	// SaleClosed reports whether an event's sale has ended. It fails with ErrNoEvent when no such
	// event exists. An id without a sale never ends.
	SaleClosed(ctx context.Context, eventID string) (bool, error)
}

func saleClosed(ctx context.Context, s Sales, eventID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, saleTimeout)
	defer cancel()
	return s.SaleClosed(ctx, eventID)
}

// Closer ends the rooms of sales that have ended, so that nobody waits in vain: visitors of the
// room are admitted, and tier 2 tells them. Every replica runs one.
type Closer struct {
	cache *StateCache
	rooms RoomStore
	sales Sales
	log   *slog.Logger
}

// NewCloser returns a Closer.
func NewCloser(sc *StateCache, r RoomStore, s Sales, log *slog.Logger) *Closer {
	return &Closer{cache: sc, rooms: r, sales: s, log: log}
}

func (c *Closer) Run(ctx context.Context) error { return loop.Every(ctx, closeInterval, c.Step) }

// Step checks every active room once, several in parallel, so that an event whose check hangs does
// not delay the others. A failed check is repeated by the next step.
func (c *Closer) Step(ctx context.Context) {
	var work sync.WaitGroup
	slots := make(chan struct{}, maxParallelSaleQueries)
	for _, id := range c.cache.ActiveIDs() {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			c.closeIfSaleEnded(ctx, id)
		})
	}
	work.Wait()
}

// closeIfSaleEnded ends the round that was active before the check. A round that an operator has
// started since is not ended, because its sale goes on.
func (c *Closer) closeIfSaleEnded(ctx context.Context, eventID string) {
	st, ok := c.cache.Get(eventID)
	if !ok || !st.Active || st.Settings.Next != NextQueue {
		return
	}
	if closed, err := saleClosed(ctx, c.sales, eventID); err != nil || !closed {
		return
	}
	stopping, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	switch err := c.rooms.Stop(stopping, eventID, st.Round); {
	case err == nil:
		c.log.InfoContext(ctx, "the sale has ended, and with it its waiting room", "event", eventID)
	case errors.Is(err, ErrStale): // another replica or an operator has changed the room
	default:
		c.log.WarnContext(ctx, "room of a sale that has ended not closed, trying again", "event", eventID, "error", err)
	}
}
