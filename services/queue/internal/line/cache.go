package line

import (
	"maps"
	"slices"
	"sync"
	"time"
)

const (
	// contactWindow is how long after a visitor's contact a replica keeps running the ticks (admission
	// runs) of an event that is not in the registry.
	contactWindow = 60 * time.Second
	// maxStateAge is the maximum age of a cached state for answering visitors. Workers refresh it
	// once a second.
	maxStateAge = 3 * time.Second
	// forgetAfter is how long a line without contact stays cached: longer than its entry in the
	// registry, shorter than an idle line is kept in Redis.
	forgetAfter = time.Hour
)

// LineCache is a replica's cache of lines. It is safe for concurrent use.
type LineCache struct {
	now func() time.Time

	mu        sync.RWMutex // locked before an entry's mutex
	lines     map[string]*lineEntry
	plannedAt time.Time // when this replica last got the list of busy lines from the schedule

	watch   sync.Mutex // guards changes and changed; locked after an entry's mutex
	changes uint64
	changed chan struct{} // closed at the next change of an epoch, a pause or a sale status
}

// lineEntry caches one line. Fields of type time.Time use this process's clock.
type lineEntry struct {
	mu        sync.Mutex
	known     KnownState
	state     LineState
	updatedAt time.Time
	created   time.Time // when this entry was created
	contact   time.Time // the last contact of a visitor; zero = none yet
	// busyAt is when the schedule last listed the line as busy. It counts as busy until busyUntil.
	busyAt, busyUntil time.Time
	// markedAt is when this replica last marked the line as busy, markTriedAt when a visitor's call
	// last tried to do so.
	markedAt, markTriedAt time.Time
	// figuresChanged means that the settings or the sale status have changed since the line's figures
	// were exported, so that the next tick is due soon.
	figuresChanged bool
	// swept means that the line was cleaned up after its last use. sweptAt is the last attempt.
	swept             bool
	sweptAt           time.Time
	empty             time.Time // since when all sets are empty; zero = not empty
	rate              rateEstimator
	admissions        admissionCounter
	title             TitleAndArtist
	titleTriedAt      time.Time // the last attempt to read the title, successful or not
	titleKnown        bool
	settingsTriedAt   time.Time // the last attempt to read the settings
	settingsCurrentAt time.Time // when this replica last knew whether the settings had changed
	// blocked are the blocked users of the last settings that this replica has read, blockedEpoch the
	// epoch of the line into which it wrote them.
	blocked      []string
	blockedEpoch int64
	// acts are the pending acts of operators, as cached in the epoch actsEpoch of the line.
	acts         []SettingsChange
	actsEpoch    int64
	lastAct      int64     // the highest order number of an act that this replica knows
	mayOpenUntil time.Time // the time until which this replica may open the line; zero = it may not
	listed       time.Time // the last time the registry listed the event while it had no line
	status       SaleStatus
	lineReportAt int64 // when ticket measured the latest sale report that Redis has, epoch ms
	// salesReadAt is when a read of the sale report was last due. While salesSlow is set, a read is
	// due only every idleSalesInterval.
	salesReadAt     time.Time
	salesSlow       bool
	settingsVersion int64 // the last settings version reported by ticket
	// change is the number that LineCache.changes had at this line's last change of epoch, pause or sale
	// status; watchers get the lines with a higher number than they have seen.
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

// Snapshot returns what this replica knows of a line; every call of the store takes it.
func (c *LineCache) Snapshot(eventID string) KnownState {
	return readEntry(c, eventID, func(e *lineEntry) KnownState { return e.known })
}

// RecordContact records that a visitor has called, so that this replica runs the line's ticks. An event
// that is not cached gets no entry, since its id may be made up.
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
	if s.Epoch < m.Epoch || s.Epoch == m.Epoch && (s.Rev < m.Rev || s.Rev == m.Rev && s.Now < m.AnsweredAt) {
		return
	}
	if s.Epoch != e.state.Epoch {
		// The restored settings lack the blocked users, so read all settings again.
		e.settingsTriedAt = time.Time{}
	}
	epochOrPauseChanged := s.Epoch != e.state.Epoch || s.PauseUntil != e.state.PauseUntil || s.Prev != e.state.Prev || s.Paused != e.state.Paused
	m.Epoch, m.Rev, m.AnsweredAt = s.Epoch, s.Rev, s.Now
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

// countChange counts a change and notifies the watchers.
func (c *LineCache) countChange() uint64 {
	c.watch.Lock()
	defer c.watch.Unlock()
	c.changes++
	close(c.changed)
	c.changed = make(chan struct{})
	return c.changes
}

// currentState returns the cached state, with Now advanced by its age, and whether it is recent enough
// to answer visitors.
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

// filterLines lists the events whose entries satisfy a predicate, sorted.
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

// ForgetUnused removes the lines from the cache that had no contact for an hour, have no pending acts
// and are not in keep. It returns their event ids.
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

// idleTime returns how long a line has had no visitors, no contact at this replica and no mark as busy
// by another one; 0 while it is in use or not cached.
func (c *LineCache) idleTime(eventID string) time.Duration {
	return readEntry(c, eventID, func(e *lineEntry) time.Duration {
		since := e.empty
		if !e.state.Exists() {
			since = e.created // the line was never created
		}
		if since.IsZero() {
			return 0
		}
		// A contact keeps a line busy for busyFor, so the contact may be that much older than busyAt.
		return c.now().Sub(slices.MaxFunc([]time.Time{since, e.contact, e.busyAt.Add(-busyFor)}, time.Time.Compare))
	})
}
