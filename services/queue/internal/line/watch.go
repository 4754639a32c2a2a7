package line

import (
	"context"
	"maps"
	"time"
)

// beat is the longest time between two messages of a watch.
const beat = 2 * time.Second

// Recovery is what a gateway needs to judge tokens: the line's epoch, and until when (epoch ms)
// those of the last one (Prev, 0 = not known) are still taken over. Sale is for whoever waits, also
// at tier 1: an event whose line nobody has come to yet has a Sale and no epoch.
type Recovery struct {
	EventID                 string
	Epoch, Prev, PauseUntil int64
	Sale                    SaleStatus
}

// Watch hands every line to send (once, complete), then what changes, and an empty message when nothing did for 2 s. It returns the
// error of send, or nil when ctx ends.
func (c *LineCache) Watch(ctx context.Context, send func(lines []Recovery, snapshot bool) error) error {
	lines, seen, changed := c.since(0)
	if err := send(lines, true); err != nil {
		return err
	}
	timer := time.NewTimer(beat)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-changed:
		}
		lines, seen, changed = c.since(seen)
		if err := send(lines, false); err != nil {
			return err
		}
		timer.Reset(beat)
	}
}

// since returns the lines that changed after a change, the latest change, and what will be closed at the next.
func (c *LineCache) since(seen uint64) ([]Recovery, uint64, <-chan struct{}) {
	c.watch.Lock()
	latest, changed := c.changes, c.changed
	c.watch.Unlock()
	c.mu.RLock()
	pages := maps.Clone(c.lines)
	c.mu.RUnlock()
	var out []Recovery
	for id, e := range pages {
		e.mu.Lock()
		if e.change > seen {
			out = append(out, Recovery{
				EventID: id, Epoch: e.state.Epoch, Prev: e.state.Prev, PauseUntil: e.state.PauseUntil, Sale: e.status,
			})
		}
		e.mu.Unlock()
	}
	return out, latest, changed
}
