package line

import (
	"context"
	"time"

	"urr.guru/pkg/failpoint"
)

const (
	// openTimeout limits each of the two steps that open a line: the ticket service records the
	// opening, and Redis creates the line. The line's first visitors wait for both.
	openTimeout = time.Second
	// openWithin is how long a replica may open a line after the opening was recorded. Later, the line
	// may have been used and then lost.
	openWithin = 5 * time.Second
)

// openNewLine opens a line for the first time, without the recovery pause of a lost line. It does
// nothing for a line that was opened before. The ticket service records the opening first, so that
// a lost line is never taken for a new one. After a crash between these steps, the next call
// creates the line with a recovery pause. Concurrent calls share one attempt.
func (s *Service) openNewLine(ctx context.Context, eventID string) error {
	_, err, _ := s.openings.Do(eventID, func() (any, error) {
		ctx := context.WithoutCancel(ctx)
		allowed, err := s.recordOpening(ctx, eventID)
		if err != nil || !allowed {
			return nil, err
		}
		failpoint.Hit("queue.open.after_ticket")
		return nil, s.openLine(ctx, eventID)
	})
	return err
}

// recordOpening has the ticket service record that the line was opened. allowed means that this
// replica may create the line: it had the opening recorded, now or within openWithin.
func (s *Service) recordOpening(ctx context.Context, eventID string) (allowed bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	settings, err := s.events.Settings(ctx, eventID)
	if err != nil {
		return false, err
	}
	if !settings.NeverOpened {
		return s.cache.openingPermitted(eventID), nil // the last attempt may have failed in Redis
	}
	first, err := s.events.MarkOpened(ctx, eventID)
	if first {
		s.cache.permitOpening(eventID)
	}
	return first, err
}

// openLine creates the line in Redis without a recovery pause. If a visitor's call has just created
// it with a pause, openLine ends that: a new line has no former slot holders to wait for.
func (s *Service) openLine(ctx context.Context, eventID string) error {
	ctx, cancel := context.WithTimeout(ctx, openTimeout)
	defer cancel()
	st, err := s.store.Open(ctx, eventID, s.cache.Snapshot(eventID))
	if err != nil {
		return err
	}
	failpoint.Hit("queue.open.after_line")
	s.cache.Observe(eventID, st)
	if err := s.store.AddEvents(ctx, eventID); err != nil {
		// The next contact registers the event.
		s.log.WarnContext(ctx, "event not registered", "event", eventID, "error", err)
	}
	s.readSettingsIfDue(ctx, eventID)
	return nil
}

// permitOpening allows this replica to open a line for openWithin.
func (c *LineCache) permitOpening(eventID string) {
	c.upsertEntry(eventID, func(e *lineEntry) { e.mayOpenUntil = c.now().Add(openWithin) })
}

func (c *LineCache) openingPermitted(eventID string) bool {
	return readEntry(c, eventID, func(e *lineEntry) bool { return c.now().Before(e.mayOpenUntil) })
}
