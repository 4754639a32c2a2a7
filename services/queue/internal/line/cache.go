package line

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// contactWindow is how long after a visitor's contact a replica ticks a line (runs its admission)
	// even if the event is not in the registry.
	contactWindow = 60 * time.Second
	// maxStateAge is the greatest age of a cached state with which visitors are answered. Workers
	// refresh the state once a second.
	maxStateAge = 3 * time.Second
	// forgetAfter is how long a line without contact stays cached. That is longer than it stays in the
	// registry, and shorter than Redis keeps an idle line.
	forgetAfter = time.Hour
)

// LineCache is a replica's cache of lines. It is safe for concurrent use.
type LineCache struct {
	now func() time.Time

	mu        sync.RWMutex // locked before an entry's mutex
	lines     map[string]*lineEntry
	plannedAt time.Time // when the schedule last listed the busy lines to this replica

	watch   sync.Mutex // guards the two fields below; locked after an entry's mutex
	changes uint64
	changed chan struct{} // closed when an epoch, a pause or a sale status changes
}

// lineEntry caches one line. Fields of type time.Time use this process's clock.
type lineEntry struct {
	mu        sync.Mutex
	known     KnownState
	state     LineState
	updatedAt time.Time
	created   time.Time // when this entry was created
	contact   time.Time // the last contact of a visitor; zero = none yet
	// busyAt is when the schedule last listed the line as busy; the line counts so until busyUntil.
	busyAt, busyUntil time.Time
	// markedAt is when this replica last marked the line as busy. markTriedAt is when a visitor's call
	// last tried to do so.
	markedAt, markTriedAt time.Time
	// figuresChanged means that the settings or the sale status have changed since the line's figures
	// were exported. It makes the next tick due soon.
	figuresChanged bool
	// swept means that the line was cleaned up since its last use. sweptAt is the last attempt.
	swept             bool
	sweptAt           time.Time
	empty             time.Time // since when the line has no visitors; zero = it has some
	rate              rateEstimator
	admissions        admissionCounter
	title             TitleAndArtist
	titleTriedAt      time.Time // the last attempt to read the title, successful or not
	titleKnown        bool
	settingsTriedAt   time.Time // the last attempt to read the settings
	settingsCurrentAt time.Time // when this replica last learned whether the settings changed
	// blocked are the blocked users in the settings that this replica read last. blockedEpoch is the
	// epoch of the line into which it wrote them.
	blocked      []string
	blockedEpoch int64
	// acts are the pending acts of operators that were cached in the line's epoch actsEpoch.
	acts         []SettingsChange
	actsEpoch    int64
	lastAct      int64     // the highest order number of an act that this replica knows
	mayOpenUntil time.Time // until then this replica may open the line; zero = it may not
	listed       time.Time // when the registry last listed the event without a line
	status       SaleStatus
	lineReportAt int64 // the time (ms) of the latest sale report in Redis
	// salesReadAt is when the sale report was last due to be read. While salesSlow is set, it is due
	// only every idleSalesInterval.
	salesReadAt     time.Time
	salesSlow       bool
	settingsVersion int64 // the last version that the ticket service has reported
	// change is the value of LineCache.changes at this line's last change of epoch, pause or sale
	// status. A watcher gets the lines whose number is higher than the last one that it has seen.
	change uint64
}

// NewLineCache returns an empty cache.
func NewLineCache(now func() time.Time) *LineCache {
	return &LineCache{now: now, lines: make(map[string]*lineEntry), changed: make(chan struct{})}
}

func (c *LineCache) findEntry(eventID string) *lineEntry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.lines[eventID]
}

func (c *LineCache) findOrCreateEntry(eventID string) *lineEntry {
	if e := c.findEntry(eventID); e != nil {
		return e
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.lines[eventID]
	if e == nil {
		e = &lineEntry{created: c.now()}
		c.lines[eventID] = e
	}
	return e
}

// readEntry returns a value of an event's entry; the zero value if there is no entry.
func readEntry[T any](c *LineCache, eventID string, get func(*lineEntry) T) (value T) {
	c.updateEntry(eventID, func(e *lineEntry) { value = get(e) })
	return value
}

// updateEntry calls change with an event's entry, if there is one.
func (c *LineCache) updateEntry(eventID string, change func(*lineEntry)) {
	if e := c.findEntry(eventID); e != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		change(e)
	}
}

// upsertEntry calls change with an event's entry, and creates the entry if there is none.
func (c *LineCache) upsertEntry(eventID string, change func(*lineEntry)) {
	e := c.findOrCreateEntry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e)
}

// Snapshot returns what this replica knows of a line, as every call of the store requires.
func (c *LineCache) Snapshot(eventID string) KnownState {
	return readEntry(c, eventID, func(e *lineEntry) KnownState { return e.known })
}

// RecordContact records that a visitor has called, so that this replica ticks the line. An event
// that is not cached is ignored, since its id may be made up.
func (c *LineCache) RecordContact(eventID string) {
	c.updateEntry(eventID, func(e *lineEntry) { e.contact = c.now() })
}

// Observe updates the cache with a state from the store, unless the cached one is newer.
func (c *LineCache) Observe(eventID string, s LineState) { c.observe(eventID, s, 0) }

// observe updates the cache with a state that was read some time ago, unless the cached one is newer.
func (c *LineCache) observe(eventID string, s LineState, age time.Duration) {
	if !s.Exists() {
		return
	}
	e := c.findOrCreateEntry(eventID)
	e.mu.Lock()
	defer e.mu.Unlock()
	m := &e.known
	if s.Epoch < m.Epoch || s.Epoch == m.Epoch && (s.Revision < m.Revision || s.Revision == m.Revision && s.Now < m.AnsweredAt) {
		return
	}
	if s.Epoch != e.state.Epoch {
		// The restored settings lack the blocked users, so read all settings again.
		e.settingsTriedAt = time.Time{}
	}
	epochOrPauseChanged := s.Epoch != e.state.Epoch || s.PauseUntil != e.state.PauseUntil || s.PrevEpoch != e.state.PrevEpoch || s.Paused != e.state.Paused
	m.Epoch, m.Revision, m.AnsweredAt = s.Epoch, s.Revision, s.Now
	if s.SettingsAt > 0 {
		m.SettingsAt, m.Threshold, m.Paused, m.SlotMS, m.ClosesAt = s.SettingsAt, s.Threshold, s.Paused, s.SlotMS, s.ClosesAt
	}
	e.lineReportAt = s.Sale.At
	s.Sale = e.mergeSale(s.Sale)
	e.state, e.updatedAt = s, c.now().Add(-age)
	e.rate.observe(s)
	e.admissions.observe(s)
	switch {
	case s.Members() > 0:
		e.empty = time.Time{}
	case e.empty.IsZero():
		e.empty = e.updatedAt
	}
	if e.updateStatus(s.Now) || epochOrPauseChanged {
		e.change = c.countChange()
	}
}

// countChange increments the number of changes, notifies the watchers, and returns the number.
func (c *LineCache) countChange() uint64 {
	c.watch.Lock()
	defer c.watch.Unlock()
	c.changes++
	close(c.changed)
	c.changed = make(chan struct{})
	return c.changes
}

// currentState returns the cached state, with Now advanced to the present. The second result says
// whether the state is recent enough to answer visitors.
func (e *lineEntry) currentState(now time.Time) (LineState, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.updatedAt.IsZero() {
		return LineState{}, false
	}
	age := now.Sub(e.updatedAt)
	s := e.state
	s.Now += age.Milliseconds()
	return s, age < maxStateAge
}

func (e *lineEntry) estimateWait(position int64, s LineState, opensAt int64) int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.rate.estimateWait(position, s, opensAt)
}

func (c *LineCache) admittedPerMinute(eventID string) float64 {
	return readEntry(c, eventID, func(e *lineEntry) float64 { return e.admissions.perMinute() })
}

func (c *LineCache) KnownLines() []string {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Sorted(maps.Keys(c.lines))
}

func (c *LineCache) ContactedLines() []string {
	return c.filterLines(func(e *lineEntry, now time.Time) bool { return now.Sub(e.contact) <= contactWindow })
}

// filterLines returns, sorted, the events whose entries satisfy a condition.
func (c *LineCache) filterLines(satisfies func(e *lineEntry, now time.Time) bool) []string {
	now := c.now()
	return slices.DeleteFunc(c.KnownLines(), func(id string) bool {
		e := c.findEntry(id)
		if e == nil {
			return true
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		return !satisfies(e, now)
	})
}

// ForgetUnused removes from the cache the lines without contact for an hour and without pending
// acts, except those in keep. It returns their event ids.
func (c *LineCache) ForgetUnused(keep map[string]bool) []string {
	now := c.now()
	var forgotten []string
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, e := range c.lines {
		e.mu.Lock()
		if !keep[id] && len(e.acts) == 0 && now.Sub(e.created) > forgetAfter && now.Sub(e.contact) > forgetAfter && now.Sub(e.updatedAt) > forgetAfter {
			forgotten = append(forgotten, id)
			delete(c.lines, id)
		}
		e.mu.Unlock()
	}
	return forgotten
}

// idleTime returns how long a line has had no visitors and no contact at any replica; 0 while the
// line is in use or not cached.
func (c *LineCache) idleTime(eventID string) time.Duration {
	return readEntry(c, eventID, func(e *lineEntry) time.Duration {
		since := e.empty
		if !e.state.Exists() {
			since = e.created // there has been no line
		}
		if since.IsZero() {
			return 0
		}
		// A line is busy for busyFor after a contact, so the contact was up to busyFor before busyAt.
		return c.now().Sub(slices.MaxFunc([]time.Time{since, e.contact, e.busyAt.Add(-busyFor)}, time.Time.Compare))
	})
}
