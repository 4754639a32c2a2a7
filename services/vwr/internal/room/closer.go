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
	// closeEvery is how often a replica asks whether the sales of active rooms have ended.
	closeEvery = 30 * time.Second
	// saleTimeout bounds one such question.
	saleTimeout = time.Second
	// stopTimeout bounds the end of one room.
	stopTimeout = 5 * time.Second
	// salesAtOnce bounds how many are asked in parallel.
	salesAtOnce = 8
)

// Sales knows which events there are.
type Sales interface {
	// Closed reports whether an event's sale has ended; ErrNoEvent when there is no such event. What is no sale never ends.
	Closed(ctx context.Context, eventID string) (bool, error)
}

func saleClosed(ctx context.Context, s Sales, eventID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, saleTimeout)
	defer cancel()
	return s.Closed(ctx, eventID)
}

// Closer ends the rooms of sales that have ended, so that nobody waits for what can no longer be had: whoever is in the room passes and is
// told by tier 2. Every replica runs one.
type Closer struct {
	board *Board
	rooms Rooms
	sales Sales
	log   *slog.Logger
}

// NewCloser wires a replica's closer.
func NewCloser(b *Board, r Rooms, s Sales, log *slog.Logger) *Closer {
	return &Closer{board: b, rooms: r, sales: s, log: log}
}

// Run closes until ctx ends.
func (c *Closer) Run(ctx context.Context) error { return loop.Every(ctx, closeEvery, c.Step) }

// Step looks at every active room once, several at a time: an event that nobody answers for must not hold up the others. A sale of which
// nothing can be learnt is asked about the next time.
func (c *Closer) Step(ctx context.Context) {
	var work sync.WaitGroup
	slots := make(chan struct{}, salesAtOnce)
	for _, id := range c.board.Active() {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			c.close(ctx, id)
		})
	}
	work.Wait()
}

// close ends the round that was active before the question: one that an operator has started since is for a sale that goes on.
func (c *Closer) close(ctx context.Context, eventID string) {
	st, ok := c.board.Get(eventID)
	if !ok || !st.Active {
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
	case errors.Is(err, ErrStale): // another replica was faster, or an operator
	default:
		c.log.WarnContext(ctx, "room of a sale that has ended not closed, trying again", "event", eventID, "error", err)
	}
}
