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
	closeInterval      = 30 * time.Second // the time between two checks of all active rooms
	endedTimeout       = time.Second      // the time limit of one check
	stopTimeout        = 5 * time.Second  // the time limit of the write that ends a room
	maxParallelQueries = 8                // how many checks run at once
)

// Destination tells whether the sale, promotion or campaign to which a room leads has ended.
type Destination interface {
	// Ended reports whether the sale, promotion or campaign has ended. It fails with ErrNoEvent,
	// ErrNoPromotion or ErrNoCampaign when none has the id.
	Ended(ctx context.Context, id string) (bool, error)
}

// Destinations has the Destination for each kind of page. Kinds without one are not checked.
type Destinations map[NextPage]Destination

func (d Destinations) ended(ctx context.Context, next NextPage, id string) (bool, error) {
	kind, ok := d[next]
	if !ok {
		return false, ErrUnavailable
	}
	ctx, cancel := context.WithTimeout(ctx, endedTimeout)
	defer cancel()
	return kind.Ended(ctx, id)
}

// requireExists fails if the sale, promotion or campaign to which a room leads does not exist. If
// that cannot be checked, it returns nil.
func (d Destinations) requireExists(ctx context.Context, next NextPage, id string) error {
	_, err := d.ended(ctx, next, id)
	if errors.Is(err, ErrNoEvent) || errors.Is(err, ErrNoPromotion) || errors.Is(err, ErrNoCampaign) {
		return err
	}
	return nil
}

// Closer ends the rooms whose sale, promotion or campaign has ended, so that nobody waits in vain.
// The visitors are then admitted, and tier 2 or the page tells them of the end. Every replica runs
// a Closer.
type Closer struct {
	cache        *StateCache
	rooms        RoomStore
	destinations Destinations
	log          *slog.Logger
}

// NewCloser returns a Closer.
func NewCloser(sc *StateCache, r RoomStore, d Destinations, log *slog.Logger) *Closer {
	return &Closer{cache: sc, rooms: r, destinations: d, log: log}
}

func (c *Closer) Run(ctx context.Context) error { return loop.Every(ctx, closeInterval, c.Step) }

// Step checks every active room once, several at the same time, so that an event whose check hangs
// does not delay the others. The next step repeats failed checks.
func (c *Closer) Step(ctx context.Context) {
	var work sync.WaitGroup
	slots := make(chan struct{}, maxParallelQueries)
	for _, id := range c.cache.ActiveIDs() {
		slots <- struct{}{}
		work.Go(func() {
			defer func() { <-slots }()
			c.closeIfEnded(ctx, id)
		})
	}
	work.Wait()
}

// closeIfEnded ends the round that was active before the check. If an operator has started another
// round since then, that round is not ended, because its sale has not ended.
func (c *Closer) closeIfEnded(ctx context.Context, eventID string) {
	st, ok := c.cache.Get(eventID)
	if !ok || !st.Active {
		return
	}
	if ended, err := c.destinations.ended(ctx, st.Settings.Next, eventID); err != nil || !ended {
		return
	}
	stopping, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	switch err := c.rooms.Stop(stopping, eventID, st.Round); {
	case err == nil:
		c.log.InfoContext(ctx, "what the waiting room leads to has ended, and with it the room", "event", eventID, "next", st.Settings.Next)
	case errors.Is(err, ErrStale): // another replica or an operator has changed the room
	default:
		c.log.WarnContext(ctx, "room not closed whose sale, promotion or campaign has ended, trying again", "event", eventID, "error", err)
	}
}
