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

// Book is what a replica remembers of each line it met. It is safe for concurrent use.
type Book struct {
	now func() time.Time

	mu    sync.RWMutex // before a page's
	lines map[string]*page

	watch   sync.Mutex // after a page's
	changes uint64
	changed chan struct{} // closed at the next change of an epoch, a pause or a status
}

// page is one line's. Times without a unit are this process's clock.
type page struct {
	mu        sync.Mutex
	memory    Memory
	state     State
	learned   time.Time
	contact   time.Time
	empty     time.Time // since when nobody is in any set; zero = somebody is
	pace      pace
	info      Info
	infoAt    time.Time // the last attempt, whether it brought something or not
	infoKnown bool
	tried     time.Time // the last attempt to read the settings
	// mayOpenUntil is until when this replica may open the line; zero = it may not.
	mayOpenUntil time.Time
	listed       time.Time // the last time that the registry named it without there being a line
	status       SaleStatus
	// settingsVersion is the version of the settings that ticket named last.
	settingsVersion int64
	change          uint64 // of Book.changes when the epoch, the pause or the status changed last
}

// NewBook makes an empty one.
func NewBook(now func() time.Time) *Book {
	return &Book{now: now, lines: make(map[string]*page), changed: make(chan struct{})}
}

func (b *Book) find(eventID string) *page {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return b.lines[eventID]
}

func (b *Book) page(eventID string) *page {
	if p := b.find(eventID); p != nil {
		return p
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.lines[eventID]
	if p == nil {
		p = &page{contact: b.now()}
		b.lines[eventID] = p
	}
	return p
}

// Recall is what to tell the store.
func (b *Book) Recall(eventID string) Memory {
	p := b.find(eventID)
	if p == nil {
		return Memory{}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory
}

// Contact notes that somebody asked about the event, so that it is ticked here. One without a line gets no page: anybody can make up ids.
func (b *Book) Contact(eventID string) {
	p := b.find(eventID)
	if p == nil {
		return
	}
	p.mu.Lock()
	p.contact = b.now()
	p.mu.Unlock()
}

// Learn takes in what the store said. Answers that were overtaken by later ones change nothing.
func (b *Book) Learn(eventID string, s State) {
	if !s.Exists() {
		return
	}
	p := b.page(eventID)
	p.mu.Lock()
	defer p.mu.Unlock()
	m := &p.memory
	if s.Epoch < m.Epoch || s.Epoch == m.Epoch && (s.Rev < m.Rev || s.Rev == m.Rev && s.Now < m.Alive) {
		return
	}
	if s.Epoch != p.state.Epoch {
		p.tried = time.Time{} // what is remembered of the settings is not all: who is blocked has to be read
	}
	moved := s.Epoch != p.state.Epoch || s.PauseUntil != p.state.PauseUntil || s.Prev != p.state.Prev
	m.Epoch, m.Rev, m.Alive = s.Epoch, s.Rev, s.Now
	if s.SettingsAt > 0 {
		m.SettingsAt, m.Threshold, m.Paused, m.SlotMS, m.ClosesAt = s.SettingsAt, s.Threshold, s.Paused, s.SlotMS, s.ClosesAt
	}
	s.Sale = p.hear(s.Sale)
	p.state, p.learned = s, b.now()
	p.pace.observe(s)
	switch {
	case s.Waiting+s.Active+s.Old+s.Parked > 0:
		p.empty = time.Time{}
	case p.empty.IsZero():
		p.empty = p.learned
	}
	if p.stand(s.Now) || moved {
		p.change = b.bump()
	}
}

// bump counts a change and wakes the watchers.
func (b *Book) bump() uint64 {
	b.watch.Lock()
	defer b.watch.Unlock()
	b.changes++
	close(b.changed)
	b.changed = make(chan struct{})
	return b.changes
}

// current returns the last state, with Now moved on, and whether it is recent enough to answer with.
func (p *page) current(now time.Time) (State, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.learned.IsZero() {
		return State{}, false
	}
	age := now.Sub(p.learned)
	s := p.state
	s.Now += age.Milliseconds()
	return s, age < currentFor
}

func (p *page) estimate(position int64, s State) int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pace.wait(position, s)
}

// Known lists the events met, in order.
func (b *Book) Known() []string {
	b.mu.RLock()
	defer b.mu.RUnlock()
	return slices.Sorted(maps.Keys(b.lines))
}

// Contacted lists those asked about within the last minute.
func (b *Book) Contacted() []string {
	return b.which(func(p *page, now time.Time) bool { return now.Sub(p.contact) <= contactFor })
}

// Current lists the lines heard of within the last minute.
func (b *Book) Current() []string {
	return b.which(func(p *page, now time.Time) bool { return p.state.Exists() && now.Sub(p.learned) <= contactFor })
}

// which lists the events whose page is as asked for, in order.
func (b *Book) which(is func(p *page, now time.Time) bool) []string {
	now := b.now()
	return slices.DeleteFunc(b.Known(), func(id string) bool {
		p := b.find(id)
		if p == nil {
			return true
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		return !is(p, now)
	})
}

// Forget drops lines that nobody asked about for an hour and that keep does not name, and returns them.
func (b *Book) Forget(keep map[string]bool) []string {
	now := b.now()
	var gone []string
	b.mu.Lock()
	defer b.mu.Unlock()
	for id, p := range b.lines {
		p.mu.Lock()
		if !keep[id] && now.Sub(p.contact) > forgetAfter && now.Sub(p.learned) > forgetAfter {
			gone = append(gone, id)
			delete(b.lines, id)
		}
		p.mu.Unlock()
	}
	return gone
}

// idle is how long a line has had nobody in any set and no contact here; 0 while it is in use, or before anything was heard of it.
func (b *Book) idle(eventID string) time.Duration {
	p := b.find(eventID)
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since := p.empty
	if !p.state.Exists() {
		since = p.contact // nobody began it
	}
	if since.IsZero() {
		return 0
	}
	if p.contact.After(since) {
		since = p.contact
	}
	return b.now().Sub(since)
}
