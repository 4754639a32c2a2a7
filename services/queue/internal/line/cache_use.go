package line

import (
	"slices"
	"time"
)

const (
	maxIdleSweeps = 50 // how many lines that are no longer in use are cleaned up in one round
	// idleSweepAfter is how long a line must be empty before its last cleanup. (A line whose sale has
	// ended is deleted earlier, while ticket still reports the sale.) idleSweepRetry is the time until
	// the next attempt after a failure, so that failing lines leave room for others.
	idleSweepAfter = 5 * time.Minute
	idleSweepRetry = 5 * time.Minute
	// lostMarkAfter is how long after a line was marked as busy a missing entry in the schedule means
	// that the mark was lost. It is also the least time between two marks that visitors' calls cause.
	lostMarkAfter = 2 * time.Second
	// maxReportLag is how much older the sale report in Redis may be than that of this replica. Beyond
	// that, the replica ticks the line itself, which passes its report to Redis.
	maxReportLag = 5 * time.Second
)

// inUse reports whether a line has visitors, or had contact: at this replica within the last minute, or
// at another one within about two minutes. Only lines in use may cause regular work.
func (e *lineEntry) inUse(now time.Time) bool {
	return e.state.Members() > 0 || now.Sub(e.contact) <= contactWindow || now.Before(e.busyUntil)
}

func (c *LineCache) LinesInUse() []string { return c.filterLines((*lineEntry).inUse) }

// takeLinesToClean lists the lines to clean up: all lines in use, and up to maxIdleSweeps others that
// were not cleaned up since they were last in use.
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

// recordCleanup records that a line was cleaned up. A line that is in use, or not empty for long,
// will be cleaned up again.
func (c *LineCache) recordCleanup(eventID string) {
	now := c.now()
	c.updateEntry(eventID, func(e *lineEntry) { e.swept = !e.inUse(now) && now.Sub(e.empty) >= idleSweepAfter })
}

// linesWithSettingsDue lists the lines whose settings are to be read: the lines in use, and those whose
// settings have changed or were not read yet.
func (c *LineCache) linesWithSettingsDue() []string {
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
		return e.state.Exists() && (e.inUse(now) || e.settingsTriedAt.IsZero())
	})
}

// linesToMark lists the lines to mark as busy in the schedule: lines with contact at this replica whose
// mark is older than busyMarkInterval or was lost, and lines whose figures have changed.
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

// markFiguresChanged makes a tick of the line due soon, so that it exports new figures.
func (c *LineCache) markFiguresChanged(eventID string) {
	c.updateEntry(eventID, func(e *lineEntry) { e.figuresChanged = true })
}

// linesWithOldReport lists the lines in use whose sale report in Redis is older than the cached one by
// more than maxReportLag. No other replica has such a recent report, so this one must pass it on.
func (c *LineCache) linesWithOldReport() []string {
	return c.filterLines(func(e *lineEntry, now time.Time) bool {
		return e.state.Exists() && e.inUse(now) && e.known.Sale.At-e.lineReportAt > maxReportLag.Milliseconds()
	})
}

// startMark reports whether a visitor's call must mark the line as busy in the schedule. While marking
// fails, one call in two seconds tries again, besides the regular marks of the worker.
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

// markBusy caches that the schedule lists these lines as busy. This counts for the duration valid.
func (c *LineCache) markBusy(eventIDs []string, valid time.Duration) {
	now := c.now()
	for _, id := range eventIDs {
		c.upsertEntry(id, func(e *lineEntry) { e.busyAt, e.busyUntil = now, now.Add(valid) })
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plannedAt = now
}

// takeDueSales lists the events whose sale reports are due to be read. Events of lines in use are
// due at every call, other events, with or without a line, every idleSalesInterval. It also updates
// the status of sales that have opened or closed by their times.
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
