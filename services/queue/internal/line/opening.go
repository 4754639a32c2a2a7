package line

import (
	"context"
	"time"

	"urr.guru/pkg/failpoint"
)

const (
	// openTimeout bounds each of the two steps that open a line: recording it at ticket, and opening it in Redis. The line's first
	// visitors wait for both.
	openTimeout = time.Second
	// openWithin is how long after recording that it opens a line a replica may do so. Later the line may have been used, and lost.
	openWithin = 5 * time.Second
)

// open opens a line that was never opened, without the pause of a lost one. Ticket records that first. So a crash between the two leaves a
// line that recovers when it begins, and a line that is lost later is never taken for a new one. It is done once for all who ask at the
// same time; for a line that was opened before it does nothing.
func (s *Service) open(ctx context.Context, eventID string) error {
	_, err, _ := s.openings.Do(eventID, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		may, err := s.mayOpen(ctx, eventID)
		if err != nil || !may {
			return nil, err
		}
		failpoint.Hit("queue.open.after_ticket")
		return nil, s.openLine(ctx, eventID)
	})
	return err
}

// mayOpen reports whether this replica has recorded at ticket, now or a moment ago, that it opens the line.
func (s *Service) mayOpen(ctx context.Context, eventID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if !set.NeverOpened {
		return s.cache.openingPermitted(eventID), nil // its last attempt may have failed at the store
	}
	first, err := s.events.MarkOpened(ctx, eventID)
	if first {
		s.cache.permitOpening(eventID)
	}
	return first, err
}

// openLine opens the line in Redis, also one that has just begun with a recovery and that nobody has used.
func (s *Service) openLine(ctx context.Context, eventID string) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	st, err := s.store.Open(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return err
	}
	failpoint.Hit("queue.open.after_line")
	s.cache.Observe(eventID, st)
	if err := s.store.Add(ctx, eventID); err != nil {
		s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err) // the first contact does it
	}
	s.readSettings(ctx, eventID)
	return nil
}

// permitOpening notes that this replica is the one that opens a line.
func (c *LineCache) permitOpening(eventID string) {
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mayOpenUntil = c.now().Add(openWithin)
}

// openingPermitted reports whether this replica may still open the line.
func (c *LineCache) openingPermitted(eventID string) bool {
	e := c.find(eventID)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return c.now().Before(e.mayOpenUntil)
}
