package line

import (
	"context"
	"maps"
	"time"
)

// heartbeatInterval is the maximum time between two messages to a gateway that watches the lines.
const heartbeatInterval = 2 * time.Second

// LineUpdate is a line's data for gateways. They accept tokens of the line's Epoch and, until
// PauseUntil (epoch ms), of the previous epoch Prev (0 = unknown). Sale is shown to waiting
// visitors, also in tier 1: an event without a line has a Sale and no Epoch. While Paused is set,
// tier 1 estimates no waits.
type LineUpdate struct {
	EventID                 string
	Epoch, Prev, PauseUntil int64
	Sale                    SaleStatus
	Paused                  bool // by an operator
}

// Watch passes a snapshot of all lines to send, then every change, and an empty message after 2 s
// without a change. It returns the error of send, or nil when ctx ends.
func (c *LineCache) Watch(ctx context.Context, send func(lines []LineUpdate, snapshot bool) error) error {
	lines, seen, changed := c.changesSince(0)
	if err := send(lines, true); err != nil {
		return err
	}
	timer := time.NewTimer(heartbeatInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		case <-changed:
		}
		lines, seen, changed = c.changesSince(seen)
		if err := send(lines, false); err != nil {
			return err
		}
		timer.Reset(heartbeatInterval)
	}
}

// changesSince returns the lines that have changed since change number seen, the number of the
// latest change, and a channel that is closed at the next change.
func (c *LineCache) changesSince(seen uint64) ([]LineUpdate, uint64, <-chan struct{}) {
	c.watch.Lock()
	latest, changed := c.changes, c.changed
	c.watch.Unlock()
	c.mu.RLock()
	lines := maps.Clone(c.lines)
	c.mu.RUnlock()
	var out []LineUpdate
	for id, e := range lines {
		e.mu.Lock()
		if e.change > seen {
			out = append(out, LineUpdate{
				EventID: id, Epoch: e.state.Epoch, Prev: e.state.PrevEpoch, PauseUntil: e.state.PauseUntil, Sale: e.status, Paused: e.state.Paused,
			})
		}
		e.mu.Unlock()
	}
	return out, latest, changed
}
