package line

import (
	"cmp"
	"time"
)

// SetSale stores a sale report of ticket, unless a later one is known. The next call on the line
// passes it to the store.
func (c *LineCache) SetSale(eventID string, report Sale) {
	e := c.findOrCreateEntry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.lineTime(c.now())
	// A later time than now means that the clock was set back.
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

// keepBlocked records the users that were blocked in an epoch of the line.
func (c *LineCache) keepBlocked(eventID string, epoch int64, users []string) {
	c.upsertEntry(eventID, func(e *entry) { e.blocked, e.blockedEpoch = users, epoch })
}

// lostBlocked returns the users that were blocked in another epoch than this one.
func (c *LineCache) lostBlocked(eventID string, epoch int64) []string {
	return readEntry(c, eventID, func(e *entry) []string {
		if e.blockedEpoch == epoch {
			return nil
		}
		return e.blocked
	})
}

// markSettingsCurrent records that this replica knows the line's settings, or cannot read them now.
func (c *LineCache) markSettingsCurrent(eventID string) {
	c.upsertEntry(eventID, func(e *entry) { e.settingsCurrentAt = c.now() })
}

// settingsCurrent reports whether this replica has kept the line's settings current: within the last
// minute, or two seconds for a line whose sale report is read less often. It is true without a line.
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

// settingsChanged makes the line's settings due for a read, unless the version is known.
func (c *LineCache) settingsChanged(eventID string, version int64) {
	c.upsertEntry(eventID, func(e *entry) {
		e.settingsCurrentAt = c.now()
		if e.settingsVersion != version {
			e.settingsVersion, e.settingsTriedAt = version, time.Time{}
		}
	})
}

// MarkListed records that the registry lists an event without a line.
func (c *LineCache) MarkListed(eventID string) {
	c.upsertEntry(eventID, func(e *entry) {
		e.listed = c.now()
		if e.updateStatus(e.lineTime(e.listed)) {
			e.change = c.countChange()
		}
	})
}

// FirstContact records a contact with an existing event, and returns whether it is the minute's
// first.
func (c *LineCache) FirstContact(eventID string) bool {
	known := c.findEntry(eventID) != nil
	e := c.findOrCreateEntry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.now()
	first := !known || now.Sub(e.contact) > contactWindow
	e.contact = now
	return first
}

// saleIsKnown reports whether there is a sale report of an event, however old.
func (c *LineCache) saleIsKnown(eventID string) bool { return c.Snapshot(eventID).Sale.At > 0 }

func (c *LineCache) saleIsRecent(eventID string, limit time.Duration) bool {
	at := c.Snapshot(eventID).Sale.At
	return at > 0 && c.lineTime(eventID)-at <= limit.Milliseconds()
}

func (c *LineCache) saleStatus(eventID string) SaleStatus {
	return readEntry(c, eventID, func(e *entry) SaleStatus { return e.known.Sale.StatusAt(e.lineTime(c.now())) })
}

// lineTime estimates the time of the line's Redis (epoch ms). Without a line it is this process's
// time.
func (c *LineCache) lineTime(eventID string) int64 {
	now := c.now()
	return cmp.Or(readEntry(c, eventID, func(e *entry) int64 { return e.lineTime(now) }), now.UnixMilli())
}

func (e *entry) lineTime(now time.Time) int64 {
	if !e.state.Exists() {
		return now.UnixMilli()
	}
	return e.state.Now + now.Sub(e.updatedAt).Milliseconds()
}

// mergeSale returns the later of the store's and the cached sale report.
func (e *entry) mergeSale(report Sale) Sale {
	if report.At >= e.known.Sale.At {
		e.known.Sale = report
	}
	return e.known.Sale
}

// updateStatus updates the sale status, and reports whether it has changed.
func (e *entry) updateStatus(now int64) bool {
	before := e.status
	e.status = e.known.Sale.StatusAt(now)
	return e.status != before
}
