package line

import (
	"slices"
	"time"
)

const (
	maxIdleSweeps = 50 // bounds the cleanups of lines that are no longer in use, each time
	// idleSweepAfter is how long a line is empty before it is cleaned up for the last time: a line
	// whose sale has ended is freed before that, while ticket reports it. idleSweepRetry is the time
	// until the next attempt after a failure, so that failing lines do not keep out the others.
	idleSweepAfter = 5 * time.Minute
	idleSweepRetry = 5 * time.Minute
	// lostMarkAfter is how long after its mark a line with contact is marked again if the schedule
	// does not list it as busy, and the time between two marks for visitors.
	lostMarkAfter = 2 * time.Second
	// maxUntold is by how much a replica's sale report may be later than that of the line before the
	// replica ticks the line itself.
	maxUntold = 5 * time.Second
)

// inUse reports whether a line has visitors, had contact here within the last minute, or elsewhere
// within the last two. Only lines in use may cause regular work.
func (e *entry) inUse(now time.Time) bool {
	return e.state.Members() > 0 || now.Sub(e.contact) <= contactWindow || now.Before(e.busyUntil)
}

func (c *LineCache) LinesInUse() []string { return c.filterLines((*entry).inUse) }

// startSweep lists the lines to clean up: all lines in use, and up to maxIdleSweeps lines that were
// not cleaned up since they were last in use.
func (c *LineCache) startSweep() []string {
	idle := 0
	return c.filterLines(func(e *entry, now time.Time) bool {
		switch {
		case !e.state.Exists():
			return false
		case e.inUse(now):
			e.swept = false
			return true
		case e.swept || idle >= maxIdleSweeps || now.Sub(e.empty) < idleSweepAfter || now.Sub(e.sweptAt) < idleSweepRetry:
			return false
		}
		idle++
		e.sweptAt = now
		return true
	})
}

// endSweep records that a line was cleaned up. It counts only if the line is still not in use.
func (c *LineCache) endSweep(eventID string) {
	now := c.now()
	c.updateEntry(eventID, func(e *entry) { e.swept = !e.inUse(now) && now.Sub(e.empty) >= idleSweepAfter })
}

// linesWithSettingsDue lists the lines whose settings are read again: those in use, and those whose
// settings have changed or were not read yet.
func (c *LineCache) linesWithSettingsDue() []string {
	return c.filterLines(func(e *entry, now time.Time) bool {
		return e.state.Exists() && (e.inUse(now) || e.settingsTriedAt.IsZero())
	})
}

// linesToMark lists the lines that are to be marked as busy: those with contact here, again after
// busyMarkInterval or when the schedule has lost the mark, and those whose figures have changed.
func (c *LineCache) linesToMark() []string {
	c.mu.RLock()
	planned := c.plannedAt
	c.mu.RUnlock()
	return c.filterLines(func(e *entry, now time.Time) bool {
		if now.Sub(e.contact) > contactWindow {
			return e.figuresChanged
		}
		age := now.Sub(e.markedAt)
		return e.figuresChanged || age > busyMarkInterval || age >= lostMarkAfter && e.busyAt.Before(planned)
	})
}

func (c *LineCache) recordMarks(eventIDs []string) {
	for _, id := range eventIDs {
		c.updateEntry(id, func(e *entry) { e.markedAt, e.figuresChanged = c.now(), false })
	}
}

// markFiguresChanged makes a tick of the line due, so that the exported figures are updated.
func (c *LineCache) markFiguresChanged(eventID string) {
	c.updateEntry(eventID, func(e *entry) { e.figuresChanged = true })
}

// untoldLines lists the lines in use that do not have this replica's sale report, since no other replica
// has such a recent one, and only this one's calls pass it.
func (c *LineCache) untoldLines() []string {
	return c.filterLines(func(e *entry, now time.Time) bool {
		return e.state.Exists() && e.inUse(now) && e.known.Sale.At-e.toldAt > maxUntold.Milliseconds()
	})
}

// startMark reports whether the caller must mark a line with contact as busy. While marking fails,
// it is tried by one visitor of the line every two seconds, and by each plan.
func (c *LineCache) startMark(eventID string) bool {
	return readEntry(c, eventID, func(e *entry) bool {
		now := c.now()
		if now.Sub(e.markedAt) <= contactWindow || now.Before(e.busyUntil) || now.Sub(e.markTriedAt) < lostMarkAfter {
			return false
		}
		e.markTriedAt = now
		return true
	})
}

// markBusy records the schedule's list of busy lines, which counts for a time.
func (c *LineCache) markBusy(eventIDs []string, valid time.Duration) {
	now := c.now()
	for _, id := range eventIDs {
		c.upsertEntry(id, func(e *entry) { e.busyAt, e.busyUntil = now, now.Add(valid) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plannedAt = now
}

// takeSaleEvents lists the events whose sale reports are due: those of lines in use at every call,
// and those of other lines and of listed events without a line every idleSalesInterval. It also
// applies the times at which sales open and close.
func (c *LineCache) takeSaleEvents() []string {
	return c.filterLines(func(e *entry, now time.Time) bool {
		if e.updateStatus(e.lineTime(now)) {
			e.change = c.countChange()
			e.figuresChanged = e.state.Exists()
		}
		e.salesSlow = !e.inUse(now)
		due := !e.salesSlow || now.Sub(e.salesReadAt) >= idleSalesInterval && slices.ContainsFunc(
			[]time.Time{e.created, e.contact, e.updatedAt, e.listed}, func(at time.Time) bool { return now.Sub(at) <= idleWindow })
		if due {
			e.salesReadAt = now
		}
		return due
	})
}
