// Package handlers holds the handlers of the routes that carry the crowd: answered from memory where that is right, else grouped, so that the
// calls which arrive within 150 µs cost one RPC.
package handlers

import (
	"context"
	"time"

	"urr.guru/pkg/batch"
)

// How calls are grouped. Inflight lets a batch go out while others are being answered; Max is far below the services' own limit (1,000).
const (
	groupDelay    = 150 * time.Microsecond
	groupMax      = 256
	groupInflight = 8
	// groupQueue is two rounds of what can be in flight: more would wait longer than a visitor does, so it is refused at once.
	groupQueue  = 2 * groupMax * groupInflight
	callTimeout = 3 * time.Second
	// assignTimeout is longer: a position is durable before it is answered, and a table takes seconds for a crowd that comes at once.
	// Giving up would only make the same visitors ask again.
	assignTimeout = 10 * time.Second
)

func grouping(timeout time.Duration) batch.Config {
	return batch.Config{Max: groupMax, Delay: groupDelay, Inflight: groupInflight, Queue: groupQueue, Timeout: timeout}
}

// call sends a batch and returns one result for each item.
type call[I, O any] = func(ctx context.Context, items []I) ([]batch.Result[O], error)

// perRoom groups the calls of each event apart: an event whose positions are slow to write delays
// no other.
func perRoom[I, O any](timeout time.Duration, run call[I, O]) *batch.Groups[string, I, O] {
	return batch.NewGroups(grouping(timeout), linesMost, func(ctx context.Context, _ string, items []I) ([]batch.Result[O], error) {
		return run(ctx, items)
	})
}

// apart groups calls by line, so that a line for which queue does not answer delays no other. Those
// of lines that queue has not named are in batches of their own, few of them small: anybody can
// make up ids.
type apart[I, O any] struct {
	known   KnownLines
	lines   *batch.Groups[string, I, O]
	unknown *batch.Coalescer[I, O]
}

// KnownLines says which lines there are.
type KnownLines interface {
	Known(event string) bool
}

// Bounds of the batches of lines that are not known, and how many lines may be asked about at once.
const (
	unknownMax      = 8
	unknownInflight = 8
	linesMost       = 4096
)

func lineGroups[I, O any](known KnownLines, run call[I, O]) *apart[I, O] {
	few := grouping(callTimeout)
	few.Max, few.Inflight = unknownMax, unknownInflight
	return &apart[I, O]{
		known: known, unknown: batch.NewItems(few, run), lines: perRoom(callTimeout, run),
	}
}

// Do hands in an item of a line and waits for its result.
func (a *apart[I, O]) Do(ctx context.Context, event string, item I) (O, error) {
	if a.known.Known(event) {
		return a.lines.Do(ctx, event, item)
	}
	return a.unknown.Do(ctx, item)
}

// Close waits for the calls under way.
func (a *apart[I, O]) Close(ctx context.Context) error { return closeAll(ctx, a.lines, a.unknown) }

// closer is what a coalescer does at the end.
type closer interface {
	Close(ctx context.Context) error
}

func closeAll(ctx context.Context, all ...closer) error {
	for _, c := range all {
		if err := c.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}
