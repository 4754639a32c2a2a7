package line

import (
	"slices"
	"time"
)

const (
	maxIdleSweeps = 50 // how many unused lines one round cleans up
	// idleSweepAfter is how long a line must be empty before its last cleanup. (A line whose sale has
	// ended is deleted earlier, while the sale is still reported.) idleSweepRetry is the time between
	// a failed cleanup and the next one, so that failing lines leave room for other lines.
	idleSweepAfter = 5 * time.Minute
	idleSweepRetry = 5 * time.Minute
	// lostMarkAfter is the age of a mark as busy at which the mark counts as lost if the schedule does
	// not list the line. It is also the shortest time between two marks that visitors' calls cause.
	lostMarkAfter = 2 * time.Second
	// maxReportLag is how much older the sale report in Redis may be than this replica's report. If it
	// is older, the replica ticks the line itself, which passes its report to Redis.
	maxReportLag = 5 * time.Second
)

// inUse reports whether a line has visitors or had contact, at this replica within the last minute
// or at another one within about two minutes. Only lines in use cause regular work.
func (e *lineEntry) inUse(now time.Time) bool {
	return e.state.Members() > 0 || now.Sub(e.contact) <= contactWindow || now.Before(e.busyUntil)
}

func (c *LineCache) LinesInUse() []string { return c.filterLines((*lineEntry).inUse) }

// takeLinesToClean lists the lines to clean up: all lines in use, and up to maxIdleSweeps unused
// lines that were not cleaned up since their last use.
func (c *LineCache) takeLinesToClean() []string {
	idle := 0
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
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

// recordCleanup records that a line was cleaned up. While the line is in use, or has been empty for
// a short time only, it will be cleaned up again.
func (c *LineCache) recordCleanup(eventID string) {
	now := c.now()
	c.updateEntry(eventID, func(e *lineEntry) { e.swept = !e.inUse(now) && now.Sub(e.empty) >= idleSweepAfter })
}

// linesWithSettingsDue lists the lines whose settings are to be read: the lines in use, and those
// with changed settings or with settings that were never read.
func (c *LineCache) linesWithSettingsDue() []string {
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
		return e.state.Exists() && (e.inUse(now) || e.settingsTriedAt.IsZero())
	})
}

// linesToMark lists the lines to mark as busy in the schedule: those with contact at this replica
// whose mark is older than busyMarkInterval or lost, and those with changed figures.
func (c *LineCache) linesToMark() []string {
	c.mu.RLock()
	planned := c.plannedAt
	c.mu.RUnlock()
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
		if now.Sub(e.contact) > contactWindow {
			return e.figuresChanged
		}
		age := now.Sub(e.markedAt)
		return e.figuresChanged || age > busyMarkInterval || age >= lostMarkAfter && e.busyAt.Before(planned)
	})
}

func (c *LineCache) recordMarks(eventIDs []string) {
	for _, id := range eventIDs {
		c.updateEntry(id, func(e *lineEntry) { e.markedAt, e.figuresChanged = c.now(), false })
	}
}

// markFiguresChanged makes the line's next tick due soon, so that new figures are exported.
func (c *LineCache) markFiguresChanged(eventID string) {
	c.updateEntry(eventID, func(e *lineEntry) { e.figuresChanged = true })
}

// linesWithOldReport lists the lines in use whose sale report in Redis is older than the cached one
// by more than maxReportLag. Only this replica has the newer report, so it must pass it to Redis.
func (c *LineCache) linesWithOldReport() []string {
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
		return e.state.Exists() && e.inUse(now) && e.known.Sale.At-e.lineReportAt > maxReportLag.Milliseconds()
	})
}

// startMark reports whether a visitor's call must mark the line as busy in the schedule. While that
// fails, one call in two seconds tries again, in addition to the worker's regular marks.
func (c *LineCache) startMark(eventID string) bool {
	return readEntry(c, eventID, func(e *lineEntry) bool {
		now := c.now()
		if now.Sub(e.markedAt) <= contactWindow || now.Before(e.busyUntil) || now.Sub(e.markTriedAt) < lostMarkAfter {
			return false
		}
		e.markTriedAt = now
		return true
	})
}

// markBusy caches that the schedule lists these lines as busy, which is valid for a duration.
func (c *LineCache) markBusy(eventIDs []string, valid time.Duration) {
	now := c.now()
	for _, id := range eventIDs {
		c.upsertEntry(id, func(e *lineEntry) { e.busyAt, e.busyUntil = now, now.Add(valid) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plannedAt = now
}

// takeDueSales lists the events whose sale reports are due to be read: of lines in use at every
// call, of other events, with or without a line, every idleSalesInterval. It also updates the
// status of sales that have opened or closed by their times.
func (c *LineCache) takeDueSales() []string {
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
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
