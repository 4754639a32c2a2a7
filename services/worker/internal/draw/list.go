package draw

import (
	"context"
	"maps"
	"slices"
	"time"

	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
)

// readDue reads the draws whose next step is due. From time to time, and whenever another process
// has taken a step, it reads all open draws, so that the figures cover all of them.
func (d *Drawer) readDue(ctx context.Context) (due []Lottery, err error) {
	now := d.opts.Now()
	if now.Before(d.nextLotteryListing()) {
		due, err = d.store.OpenDraws(ctx, now.UnixMilli())
		if err != nil || d.recordDue(due, now) {
			return due, err
		}
	}
	if due, err = d.store.OpenDraws(ctx, AllDraws); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.listAt = now.Add(listEvery)
	clear(d.open)
	for _, l := range due {
		d.open[l.Promotion.EventID] = l
	}
	return due, nil
}

func (d *Drawer) nextLotteryListing() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.listAt
}

// recordDue keeps the due draws in d.open, as they were read. ok is false if a draw in d.open
// should be due but was not read, because another process has taken its step.
func (d *Drawer) recordDue(due []Lottery, now time.Time) (ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	read := make(map[string]bool, len(due))
	for _, l := range due {
		d.open[l.Promotion.EventID] = l
		read[l.Promotion.EventID] = true
	}
	for event, l := range d.open {
		if !read[event] && l.dueAt() <= now.UnixMilli() {
			return false
		}
	}
	return true
}

// dueAt returns when the next step of an open draw is due, as far as that is known, in epoch ms.
func (l *Lottery) dueAt() int64 {
	if l.Unreadable != nil {
		return l.ListedAt
	}
	return l.Draw.DueAt
}

// reportFigures computes the figures of the open draws and passes them to the meter.
func (d *Drawer) reportFigures() {
	d.mu.Lock()
	maps.DeleteFunc(d.failing, func(event string, _ bool) bool {
		_, open := d.open[event]
		return !open
	})
	f := Figures{Failing: len(d.failing)}
	open := slices.Collect(maps.Values(d.open))
	d.mu.Unlock()
	now := d.opts.Now()
	keys := d.keys.Keys()
	for _, l := range open {
		if l.Unreadable != nil || l.Draw.Phase == promotion.DrawVoid {
			continue
		}
		if l.Draw.Phase == promotion.DrawOpen {
			f.Waiting = max(f.Waiting, now.Sub(time.UnixMilli(l.Promotion.LotteryCutoffAt).Add(d.opts.After)))
		}
		if !l.Draw.Announced() {
			f.Late = max(f.Late, now.Sub(time.UnixMilli(l.Promotion.AnnouncedAt)))
		}
		if terms, err := d.terms.termsOf(&l.Promotion); err == nil && !hasKeys(keys, &l, &terms) {
			f.KeyMissing++
		}
	}
	d.meter.SetFigures(f)
}

// hasKeys reports whether this process has the keys that an open draw still needs.
func hasKeys(keys fairdraw.Keys, l *Lottery, t *terms) bool {
	_, seeds := keys.Seed(&t.Commitment, t.nonce)
	return canSign(keys, l, t) && (seeds || l.Draw.Announced() || l.Draw.ZeroSeed)
}

// canSign reports whether a draw's statement is signed, or this process has the key to sign it.
func canSign(keys fairdraw.Keys, l *Lottery, t *terms) bool {
	_, ok := keys.Statements.KidOf(t.StatementKey[:])
	return ok || l.Draw.Public()
}
