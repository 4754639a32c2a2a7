package line

import "time"

// Asked lists the events about whose sales ticket is asked: those with contact, those with a line,
// and those that the registry names though nobody has come to their line.
func (c *LineCache) Asked() []string {
	return c.which(func(e *entry, now time.Time) bool {
		for _, at := range []time.Time{e.contact, e.updatedAt, e.listed} {
			if now.Sub(at) <= contactFor {
				return true
			}
		}
		return false
	})
}

// SetSale stores what ticket says of a sale, unless a later report is known. The next call on the line passes
// it to the store.
func (c *LineCache) SetSale(eventID string, word Sale) {
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := e.time(c.now())
	if known := e.memory.Sale.At; word.At < known && known <= now { // else the clock was set back
		return
	}
	e.memory.Sale, e.state.Sale = word, word
	if word.Status != NoSale {
		e.memory.ClosesAt, e.state.ClosesAt = word.ClosesAt, word.ClosesAt
	} else {
		e.memory.Sale.ClosesAt, e.state.Sale.ClosesAt = e.state.ClosesAt, e.state.ClosesAt
	}
	if e.updateStatus(now) {
		e.change = c.bump()
	}
}

// follow notes that this replica knows the line's settings, or cannot know more for now.
func (c *LineCache) follow(eventID string) {
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.followedAt = c.now()
}

// follows reports whether this replica has followed the line's settings within the last minute. There are none to follow without a line.
func (c *LineCache) follows(eventID string) bool {
	e := c.find(eventID)
	if e == nil {
		return true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return !e.state.Exists() || c.now().Sub(e.followedAt) <= contactFor
}

// settingsChanged lets the line's settings be read at once, unless they are of that version.
func (c *LineCache) settingsChanged(eventID string, version int64) {
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.followedAt = c.now()
	if e.settingsVersion != version {
		e.settingsVersion, e.settingsTriedAt = version, time.Time{}
	}
}

// MarkListed notes that the registry names an event that has no line.
func (c *LineCache) MarkListed(eventID string) {
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.listed = c.now()
	if e.updateStatus(e.time(e.listed)) {
		e.change = c.bump()
	}
}

// FirstContact notes a contact for an event that exists, and reports whether it was the first for a minute.
func (c *LineCache) FirstContact(eventID string) bool {
	known := c.find(eventID) != nil
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	now := c.now()
	first := !known || now.Sub(e.contact) > contactFor
	e.contact = now
	return first
}

// saleIsKnown reports whether anything is known of an event's sale, told whether by a word that is not old.
func (c *LineCache) saleIsKnown(eventID string) bool { return c.Snapshot(eventID).Sale.At > 0 }

func (c *LineCache) saleIsRecent(eventID string) bool {
	at := c.Snapshot(eventID).Sale.At
	return at > 0 && c.time(eventID)-at <= saleFreshFor.Milliseconds()
}

// sale is where an event's sale stands now.
func (c *LineCache) sale(eventID string) SaleStatus {
	e := c.find(eventID)
	if e == nil {
		return NoSale
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memory.Sale.Stands(e.time(c.now()))
}

// time is a line's time (epoch ms) as far as this replica can tell; this process's own where there
// is no line.
func (c *LineCache) time(eventID string) int64 {
	e := c.find(eventID)
	if e == nil {
		return c.now().UnixMilli()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.time(c.now())
}

func (e *entry) time(now time.Time) int64 {
	if !e.state.Exists() {
		return now.UnixMilli()
	}
	return e.state.Now + now.Sub(e.updatedAt).Milliseconds()
}

// mergeSale is the later of the word that the store has and the one that is remembered.
func (e *entry) mergeSale(word Sale) Sale {
	if word.At >= e.memory.Sale.At {
		e.memory.Sale = word
	}
	return e.memory.Sale
}

// updateStatus notes where the sale stands, and reports whether that has changed.
func (e *entry) updateStatus(now int64) bool {
	before := e.status
	e.status = e.memory.Sale.Stands(now)
	return e.status != before
}
