package line

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// contactFor is how long after a contact a replica ticks an event even if the registry does not list it.
	contactFor = 60 * time.Second
	// currentFor is how old a state may be to answer visitors with; workers renew it once a second.
	currentFor = 3 * time.Second
	// forgetAfter is how long a line without contact is remembered; longer than a registry entry lives, shorter than an idle line.
	forgetAfter = time.Hour
)

// LineCache is what a replica remembers of each line it met. It is safe for concurrent use.
type LineCache struct {
	now func() time.Time

	mu    sync.RWMutex // before an entry's
	lines map[string]*entry

	watch   sync.Mutex // after an entry's
	changes uint64
	changed chan struct{} // closed at the next change of an epoch, a pause or a status
}

// entry is one line's. Times without a unit are this process's clock.
type entry struct {
	mu              sync.Mutex
	memory          Memory
	state           State
	updatedAt       time.Time
	contact         time.Time
	empty           time.Time // since when nobody is in any set; zero = somebody is
	pace            pace
	info            Info
	infoAt          time.Time // the last attempt, whether it brought something or not
	infoKnown       bool
	settingsTriedAt time.Time // the last attempt to read the settings
	followedAt      time.Time // when this replica last knew whether the settings had changed
	// mayOpenUntil is until when this replica may open the line; zero = it may not.
	mayOpenUntil time.Time
	listed       time.Time // the last time that the registry named it without there being a line
	status       SaleStatus
	// settingsVersion is the version of the settings that ticket named last.
	settingsVersion int64
	change          uint64 // of LineCache.changes when the epoch, the pause or the status changed last
}

// NewLineCache makes an empty one.
func NewLineCache(now func() time.Time) *LineCache {
	return &LineCache{now: now, lines: make(map[string]*entry), changed: make(chan struct{})}
}

func (c *LineCache) find(eventID string) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lines[eventID]
}

func (c *LineCache) entry(eventID string) *entry {
	if e := c.find(eventID); e != nil {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.lines[eventID]
	if e == nil {
		e = &entry{contact: c.now()}
		c.lines[eventID] = e
	}
	return e
}

// Snapshot is what to tell the store.
func (c *LineCache) Snapshot(eventID string) Memory {
	e := c.find(eventID)
	if e == nil {
		return Memory{}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.memory
}

// Contact notes that somebody asked about the event, so that it is ticked here. One without a line gets no entry: anybody can make up ids.
func (c *LineCache) Contact(eventID string) {
	e := c.find(eventID)
	if e == nil {
		return
	}
	e.mu.Lock()
	e.contact = c.now()
	e.mu.Unlock()
}

// Observe takes in what the store said. Answers that were overtaken by later ones change nothing.
func (c *LineCache) Observe(eventID string, s State) {
	if !s.Exists() {
		return
	}
	e := c.entry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	m := &e.memory
	if s.Epoch < m.Epoch || s.Epoch == m.Epoch && (s.Rev < m.Rev || s.Rev == m.Rev && s.Now < m.Alive) {
		return
	}
	if s.Epoch != e.state.Epoch {
		e.settingsTriedAt = time.Time{} // what is remembered of the settings is not all: who is blocked has to be read
	}
	moved := s.Epoch != e.state.Epoch || s.PauseUntil != e.state.PauseUntil || s.Prev != e.state.Prev
	m.Epoch, m.Rev, m.Alive = s.Epoch, s.Rev, s.Now
	if s.SettingsAt > 0 {
		m.SettingsAt, m.Threshold, m.Paused, m.SlotMS, m.ClosesAt = s.SettingsAt, s.Threshold, s.Paused, s.SlotMS, s.ClosesAt
	}
	s.Sale = e.mergeSale(s.Sale)
	e.state, e.updatedAt = s, c.now()
	e.pace.observe(s)
	switch {
	case s.Waiting+s.Active+s.Old+s.Parked > 0:
		e.empty = time.Time{}
	case e.empty.IsZero():
		e.empty = e.updatedAt
	}
	if e.updateStatus(s.Now) || moved {
		e.change = c.bump()
	}
}

// bump counts a change and wakes the watchers.
func (c *LineCache) bump() uint64 {
	c.watch.Lock()
	defer c.watch.Unlock()
	c.changes++
	close(c.changed)
	c.changed = make(chan struct{})
	return c.changes
}

// current returns the last state, with Now moved on, and whether it is recent enough to answer with.
func (e *entry) current(now time.Time) (State, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.updatedAt.IsZero() {
		return State{}, false
	}
	age := now.Sub(e.updatedAt)
	s := e.state
	s.Now += age.Milliseconds()
	return s, age < currentFor
}

func (e *entry) estimate(position int64, s State) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pace.wait(position, s)
}

// Known lists the events met, in order.
func (c *LineCache) Known() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.lines))
}

// Contacted lists those asked about within the last minute.
func (c *LineCache) Contacted() []string {
	return c.which(func(e *entry, now time.Time) bool { return now.Sub(e.contact) <= contactFor })
}

// Current lists the lines heard of within the last minute.
func (c *LineCache) Current() []string {
	return c.which(func(e *entry, now time.Time) bool { return e.state.Exists() && now.Sub(e.updatedAt) <= contactFor })
}

// which lists the events whose entry is as asked for, in order.
func (c *LineCache) which(is func(e *entry, now time.Time) bool) []string {
	now := c.now()
	return slices.DeleteFunc(c.Known(), func(id string) bool {
		e := c.find(id)
		if e == nil {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return !is(e, now)
	})
}

// Forget drops lines that nobody asked about for an hour and that keep does not name, and returns them.
func (c *LineCache) Forget(keep map[string]bool) []string {
	now := c.now()
	var gone []string
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.lines {
		e.mu.Lock()
		if !keep[id] && now.Sub(e.contact) > forgetAfter && now.Sub(e.updatedAt) > forgetAfter {
			gone = append(gone, id)
			delete(c.lines, id)
		}
		e.mu.Unlock()
	}
	return gone
}

// idle is how long a line has had nobody in any set and no contact here; 0 while it is in use, or before anything was heard of it.
func (c *LineCache) idle(eventID string) time.Duration {
	e := c.find(eventID)
	if e == nil {
		return 0
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	since := e.empty
	if !e.state.Exists() {
		since = e.contact // nobody began it
	}
	if since.IsZero() {
		return 0
	}
	if e.contact.After(since) {
		since = e.contact
	}
	return c.now().Sub(since)
}
