package line

import (
	"context"
	"time"

	"urr.guru/pkg/failpoint"
)

const (
	// openTimeout bounds the opening of a line; its first visitors wait for it.
	openTimeout = 500 * time.Millisecond
	// openWithin is how long a replica may open a line after it recorded the opening. Later the
	// line may have been used and lost.
	openWithin = 5 * time.Second
)

// open opens a line that was never opened, without the recovery pause of a lost one. Ticket records
// the opening first. So a crash between the two leaves a line that recovers when it is created, and
// a line lost later is never mistaken for a new one. Concurrent calls share one attempt. It does
// nothing for a line that was opened before.
func (s *Service) open(ctx context.Context, eventID string) error {
	_, err, _ := s.openings.Do(eventID, func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), openTimeout)
		defer cancel()
		may, err := s.mayOpen(ctx, eventID)
		if err != nil || !may {
			return nil, err
		}
		failpoint.Hit("queue.open.after_ticket")
		return nil, s.openLine(ctx, eventID)
	})
	return err
}

// mayOpen reports whether this replica has recorded the opening at ticket, now or within
// openWithin.
func (s *Service) mayOpen(ctx context.Context, eventID string) (bool, error) {
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if !set.NeverOpened {
		return s.cache.mayOpen(eventID), nil // the last attempt may have failed at the store
	}
	first, err := s.events.MarkOpened(ctx, eventID)
	if first {
		s.cache.permitOpening(eventID)
	}
	return first, err
}

func (s *Service) openLine(ctx context.Context, eventID string) error {
	st, err := s.store.Open(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return err
	}
	failpoint.Hit("queue.open.after_line")
	s.cache.Observe(eventID, st)
	if err := s.store.Add(ctx, eventID); err != nil {
		// The first contact registers it.
		s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err)
	}
	return s.refresh(ctx, eventID)
}

// permitOpening allows this replica to open a line for openWithin.
func (c *LineCache) permitOpening(eventID string) {
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mayOpenUntil = c.now().Add(openWithin)
}

func (c *LineCache) mayOpen(eventID string) bool {
	e := c.find(eventID)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.Exists() && c.now().Before(e.mayOpenUntil)
}
