package line

import "time"

// Asked lists the events about whose sales ticket is asked: those with contact, those with a line,
// and those that the registry names though nobody has come to their line.
func (b *Book) Asked() []string {
	return b.which(func(p *page, now time.Time) bool {
		for _, at := range []time.Time{p.contact, p.learned, p.listed} {
			if now.Sub(at) <= contactFor {
				return true
			}
		}
		return false
	})
}

// Tell takes in what ticket says of a sale, unless a later word is known. It is told to the line with
// the next call on it.
func (b *Book) Tell(eventID string, word Sale) {
	p := b.page(eventID)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.time(b.now())
	if known := p.memory.Sale.At; word.At < known && known <= now { // else the clock was set back
		return
	}
	p.memory.Sale, p.state.Sale = word, word
	if word.Status != NoSale {
		p.memory.ClosesAt, p.state.ClosesAt = word.ClosesAt, word.ClosesAt
	} else {
		p.memory.Sale.ClosesAt, p.state.Sale.ClosesAt = p.state.ClosesAt, p.state.ClosesAt
	}
	if p.stand(now) {
		p.change = b.bump()
	}
}

// settingsChanged lets the line's settings be read at once, unless they are of that version.
func (b *Book) settingsChanged(eventID string, version int64) {
	p := b.page(eventID)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.settingsVersion != version {
		p.settingsVersion, p.tried = version, time.Time{}
	}
}

// List notes that the registry names an event that has no line.
func (b *Book) List(eventID string) {
	p := b.page(eventID)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.listed = b.now()
	if p.stand(p.time(p.listed)) {
		p.change = b.bump()
	}
}

// Meet notes a contact for an event that exists, and reports whether it was the first for a minute.
func (b *Book) Meet(eventID string) bool {
	known := b.find(eventID) != nil
	p := b.page(eventID)
	p.mu.Lock()
	defer p.mu.Unlock()
	now := b.now()
	first := !known || now.Sub(p.contact) > contactFor
	p.contact = now
	return first
}

// heard reports whether anything is known of an event's sale, told whether by a word that is not old.
func (b *Book) heard(eventID string) bool { return b.Recall(eventID).Sale.At > 0 }

func (b *Book) told(eventID string) bool {
	at := b.Recall(eventID).Sale.At
	return at > 0 && b.time(eventID)-at <= wordFor.Milliseconds()
}

// sale is where an event's sale stands now.
func (b *Book) sale(eventID string) SaleStatus {
	p := b.find(eventID)
	if p == nil {
		return NoSale
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.memory.Sale.Stands(p.time(b.now()))
}

// time is a line's time (epoch ms) as far as this replica can tell; this process's own where there
// is no line.
func (b *Book) time(eventID string) int64 {
	p := b.find(eventID)
	if p == nil {
		return b.now().UnixMilli()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.time(b.now())
}

func (p *page) time(now time.Time) int64 {
	if !p.state.Exists() {
		return now.UnixMilli()
	}
	return p.state.Now + now.Sub(p.learned).Milliseconds()
}

// hear is the later of the word that the store has and the one that is remembered.
func (p *page) hear(word Sale) Sale {
	if word.At >= p.memory.Sale.At {
		p.memory.Sale = word
	}
	return p.memory.Sale
}

// stand notes where the sale stands, and reports whether that has changed.
func (p *page) stand(now int64) bool {
	before := p.status
	p.status = p.memory.Sale.Stands(now)
	return p.status != before
}
