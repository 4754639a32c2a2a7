package line

import (
	"slices"
	"time"
)

const (
	// busyListAge is the age up to which the schedule's list of busy lines counts.
	busyListAge = 5 * time.Second
	// maxIdleSweeps bounds the cleanups of lines that are no longer in use, each time.
	maxIdleSweeps = 50
)

// inUse reports whether a line has visitors, or had contact within the last minute here, or a
// minute or two elsewhere. Cost must follow such lines, not all that exist.
func (e *entry) inUse(now time.Time) bool {
	return e.state.Members() > 0 || now.Sub(e.contact) <= contactWindow || now.Sub(e.busyAt) <= busyListAge
}

// InUse lists the lines in use.
func (c *LineCache) InUse() []string { return c.filter((*entry).inUse) }

// startSweep lists the lines to clean up: those in use, and once those that no longer are, of which
// it takes maxIdleSweeps at a time.
func (c *LineCache) startSweep() []string {
	idle := 0
	return c.filter(func(e *entry, now time.Time) bool {
		switch {
		case !e.state.Exists():
			return false
		case e.inUse(now):
			e.swept = false
			return true
		case e.swept || idle >= maxIdleSweeps:
			return false
		}
		idle++
		e.swept = true
		return true
	})
}

// settingsDue lists the lines whose settings are read again: those in use, and those whose settings
// have changed or were not read yet.
func (c *LineCache) settingsDue() []string {
	return c.filter(func(e *entry, now time.Time) bool {
		return e.state.Exists() && (e.inUse(now) || e.settingsTriedAt.IsZero())
	})
}

// unmarked lists the lines with contact here that are to be marked as busy, again.
func (c *LineCache) unmarked() []string {
	return c.filter(func(e *entry, now time.Time) bool {
		return now.Sub(e.contact) <= contactWindow && now.Sub(e.markedAt) > busyMarkInterval
	})
}

// marked records that the lines were marked as busy.
func (c *LineCache) marked(eventIDs []string) {
	for _, id := range eventIDs {
		if e := c.find(id); e != nil {
			e.mu.Lock()
			e.markedAt = c.now()
			e.mu.Unlock()
		}
	}
}

// startMark reports whether a line with contact may not be marked as busy yet. Then the caller marks
// it.
func (c *LineCache) startMark(eventID string) bool {
	e := c.find(eventID)
	if e == nil {
		return false
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.now()
	if now.Sub(e.markedAt) <= contactWindow || now.Sub(e.busyAt) <= busyListAge {
		return false
	}
	e.markedAt = now
	return true
}

// markBusy records the schedule's list of busy lines.
func (c *LineCache) markBusy(eventIDs []string) {
	for _, id := range eventIDs {
		e := c.entry(id)
		e.mu.Lock()
		e.busyAt = c.now()
		e.mu.Unlock()
	}
}

// takeSaleEvents lists the events whose sale reports are due: each time those in use, and from time
// to time the other lines and the events in the registry without a line. It also applies the times
// at which sales open and close.
func (c *LineCache) takeSaleEvents() []string {
	return c.filter(func(e *entry, now time.Time) bool {
		if e.updateStatus(e.time(now)) {
			e.change = c.bump()
		}
		e.salesSlow = !e.inUse(now)
		due := !e.salesSlow || now.Sub(e.salesAskedAt) >= idleSalesInterval && slices.ContainsFunc(
			[]time.Time{e.created, e.contact, e.updatedAt, e.listed}, func(at time.Time) bool { return now.Sub(at) <= idleWindow })
		if due {
			e.salesAskedAt = now
		}
		return due
	})
}
