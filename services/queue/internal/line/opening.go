package line

import (
	"context"
	"time"

	"urr.guru/pkg/failpoint"
)

const (
	// openTimeout bounds each of the two steps that open a line: recording it at ticket, and opening
	// it in Redis. The line's first visitors wait for both.
	openTimeout = time.Second
	// openWithin is how long a replica may open a line after it recorded the opening. Later the
	// line may have been used and lost.
	openWithin = 5 * time.Second
)

// openNewLine opens a line that was never opened, without the recovery pause of a lost one. Ticket
// records the opening first. So a crash between the two leaves a line that recovers when it is
// created, and a line lost later is never mistaken for a new one. Concurrent calls share one
// attempt. It does nothing for a line that was opened before.
func (s *Service) openNewLine(ctx context.Context, eventID string) error {
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

// mayOpen records the opening at ticket, and reports whether this replica may open the line: it was
// the first to record that, now or within openWithin.
func (s *Service) mayOpen(ctx context.Context, eventID string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	set, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if !set.NeverOpened {
		return s.cache.openingPermitted(eventID), nil // the last attempt may have failed at the store
	}
	first, err := s.events.MarkOpened(ctx, eventID)
	if first {
		s.cache.permitOpening(eventID)
	}
	return first, err
}

// openLine creates the line in Redis. If an earlier attempt has just created it, it waits for its
// former slots as after a loss of Redis; openLine ends that wait, for there were none.
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
		// The first contact registers it.
		s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err)
	}
	s.readSettings(ctx, eventID)
	return nil
}

// permitOpening allows this replica to open a line for openWithin.
func (c *LineCache) permitOpening(eventID string) {
	c.upsertEntry(eventID, func(e *entry) { e.mayOpenUntil = c.now().Add(openWithin) })
}

func (c *LineCache) openingPermitted(eventID string) bool {
	return readEntry(c, eventID, func(e *entry) bool { return c.now().Before(e.mayOpenUntil) })
}
