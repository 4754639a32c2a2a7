package line

import (
	"cmp"
	"time"
)

// SetSale caches a sale report, unless a later one is cached. The next call of the store on this
// line passes the report to Redis.
func (c *LineCache) SetSale(eventID string, report Sale) {
	e := c.findOrCreateEntry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.lineTime(c.now())
	// If the cached report is from the future, the line's clock was set back: replace it.
	if known := e.known.Sale.At; report.At < known && known <= now {
		return
	}
	e.known.Sale, e.state.Sale = report, report
	if report.Status != NoSale {
		e.known.ClosesAt, e.state.ClosesAt = report.ClosesAt, report.ClosesAt
	} else {
		e.known.Sale.ClosesAt, e.state.Sale.ClosesAt = e.state.ClosesAt, e.state.ClosesAt
	}
	if e.updateStatus(now) {
		e.change = c.countChange()
		e.figuresChanged = e.state.Exists()
	}
}

// keepBlocked caches the list of users who are blocked from the line in an epoch.
func (c *LineCache) keepBlocked(eventID string, epoch int64, users []string) {
	c.upsertEntry(eventID, func(e *lineEntry) { e.blocked, e.blockedEpoch = users, epoch })
}

// lostBlocked returns the cached blocked users if they are of another epoch, else nil.
func (c *LineCache) lostBlocked(eventID string, epoch int64) []string {
	return readEntry(c, eventID, func(e *lineEntry) []string {
		if e.blockedEpoch == epoch {
			return nil
		}
		return e.blocked
	})
}

// markSettingsCurrent records that this replica has just tried to update the line's settings.
func (c *LineCache) markSettingsCurrent(eventID string) {
	c.upsertEntry(eventID, func(e *lineEntry) { e.settingsCurrentAt = c.now() })
}

// settingsCurrent reports whether the line's settings were updated within the last minute, or
// within two seconds if the line's sale report is read rarely. Without a line it returns true.
func (c *LineCache) settingsCurrent(eventID string) bool {
	e := c.findEntry(eventID)
	if e == nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	limit := contactWindow
	if e.salesSlow {
		limit = maxNewSaleAge
	}
	return !e.state.Exists() || c.now().Sub(e.settingsCurrentAt) <= limit
}

// noteSettingsVersion records the version of the settings that a sale report has. If it differs
// from the last version, the settings are due to be read.
func (c *LineCache) noteSettingsVersion(eventID string, version int64) {
	c.upsertEntry(eventID, func(e *lineEntry) {
		e.settingsCurrentAt = c.now()
		if e.settingsVersion != version {
			e.settingsVersion, e.settingsTriedAt = version, time.Time{}
		}
	})
}

// MarkListed records that the registry lists an event, and that the event has no line.
func (c *LineCache) MarkListed(eventID string) {
	c.upsertEntry(eventID, func(e *lineEntry) {
		e.listed = c.now()
		if e.updateStatus(e.lineTime(e.listed)) {
			e.change = c.countChange()
		}
	})
}

// RecordEventContact records a contact with an existing event, even if it has no line. It returns
// true for the first contact within a minute.
func (c *LineCache) RecordEventContact(eventID string) bool {
	known := c.findEntry(eventID) != nil
	e := c.findOrCreateEntry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.now()
	first := !known || now.Sub(e.contact) > contactWindow
	e.contact = now
	return first
}

// saleIsKnown reports whether this replica has a sale report of an event, even an old one.
func (c *LineCache) saleIsKnown(eventID string) bool { return c.Snapshot(eventID).Sale.At > 0 }

func (c *LineCache) saleIsRecent(eventID string, limit time.Duration) bool {
	at := c.Snapshot(eventID).Sale.At
	return at > 0 && c.lineTime(eventID)-at <= limit.Milliseconds()
}

func (c *LineCache) saleStatus(eventID string) SaleStatus {
	return readEntry(c, eventID, func(e *lineEntry) SaleStatus { return e.known.Sale.StatusAt(e.lineTime(c.now())) })
}

// lineTime estimates the present time (epoch ms) on the Redis server that has the line. Without a
// line it returns this process's time.
func (c *LineCache) lineTime(eventID string) int64 {
	now := c.now()
	return cmp.Or(readEntry(c, eventID, func(e *lineEntry) int64 { return e.lineTime(now) }), now.UnixMilli())
}

func (e *lineEntry) lineTime(now time.Time) int64 {
	if !e.state.Exists() {
		return now.UnixMilli()
	}
	return e.state.Now + now.Sub(e.updatedAt).Milliseconds()
}

// mergeSale caches and returns the later one of the cached report and one from Redis.
func (e *lineEntry) mergeSale(report Sale) Sale {
	if report.At >= e.known.Sale.At {
		e.known.Sale = report
	}
	return e.known.Sale
}

// updateStatus computes the sale status at a time (epoch ms), and reports whether it has changed.
func (e *lineEntry) updateStatus(now int64) bool {
	before := e.status
	e.status = e.known.Sale.StatusAt(now)
	return e.status != before
}
