// Package handlers has the handlers of the hand-written routes, among them those with the most
// load. They respond from memory where possible. Other calls are batched: all calls that arrive
// within 150 µs (2 to 10 ms for the calls of a crowd) become one RPC.
//
// What stands between a route and its RPC, and why:
//
//	one batch        seats.reserve, reservations.best: one RPC holds places of many events
//	newEventBatches  vwr.assign, vwr.lobby, promotions.apply, draws.*: a slow event delays no other
//	newLineBatches   vwr.check, queue.check, queue.status, queue.heartbeat, slots of entry tokens:
//	                 and made-up ids take no place of those that the service has listed
//	newSharedRead    events, promotions, seats.layout, seats.availability, vwr.shuffle*: all who ask
//	                 for the same get one answer, which is no older than their requests
//	responseCache    events, promotions, seats.layout, draws.*, vwr.shuffle*: the same answer for a
//	                 moment, also that there is none (package absence)
//	backlog          seats.reserve, reservations.best: what would wait too long is refused at once
//	EventExistence   pages of events: few calls tell which ones exist
package handlers

import (
	"context"
	"time"

	"urr.guru/pkg/batch"
)

// These limit the batches: batchMax is the most calls of one, far below what the services accept
// (1,000), and batchInflight is the most batches in flight at once.
const (
	batchDelay = 150 * time.Microsecond
	// Calls of a crowd (polls of a line, and calls that store something before the response) wait
	// longer for their batch, and their batches overlap only if the service is slow. So batches grow
	// with the load: one RPC costs as much as many of its items.
	crowdDelay    = 2 * time.Millisecond
	crowdOverlap  = 10 * time.Millisecond
	pollInflight  = 4
	batchMax      = 256
	batchInflight = 8
	// batchQueue is how many calls may wait for a batch. Further calls are refused at once, since
	// they would wait longer than a visitor does.
	batchQueue  = 2 * batchMax * batchInflight
	callTimeout = 3 * time.Second
	// assignTimeout is the time-out of calls that assign positions. It is long: a position is stored
	// before the response, which takes seconds when a crowd arrives, and after a time-out the crowd
	// would ask again.
	assignTimeout = 10 * time.Second
)

func batchConfig(timeout time.Duration) batch.Config {
	return batch.Config{Max: batchMax, Delay: batchDelay, Inflight: batchInflight, Queue: batchQueue, Timeout: timeout}
}

// batchCall sends a batch of items in one RPC, and returns one result for each item.
type batchCall[I, O any] = func(ctx context.Context, items []I) ([]batch.Result[O], error)

// newEventBatches batches the calls of each event separately, so that a slow event does not delay
// others.
func newEventBatches[I, O any](cfg batch.Config, run batchCall[I, O]) *batch.Groups[string, I, O] {
	return batch.NewGroups(cfg, maxLines, func(ctx context.Context, _ string, items []I) ([]batch.Result[O], error) {
		return run(ctx, items)
	})
}

// lineBatches batches the calls of each event's room or line separately, so that a slow one does
// not delay the others. Calls for events that the service has not listed share a few small batches,
// since anybody can make up event ids.
type lineBatches[I, O any] struct {
	known   KnownEvents
	lines   *batch.Groups[string, I, O]
	unknown *batch.Coalescer[I, O]
}

// KnownEvents knows the events whose line or room a service has listed.
type KnownEvents interface{ Known(event string) bool }

// Limits of the batches for unknown lines. maxLines is the most lines with their own batches.
const (
	unknownMax      = 8
	unknownInflight = 8
	maxLines        = 4096
)

func newLineBatches[I, O any](known KnownEvents, cfg batch.Config, run batchCall[I, O]) *lineBatches[I, O] {
	small := cfg
	small.Max, small.Inflight = unknownMax, unknownInflight
	return &lineBatches[I, O]{known: known, unknown: batch.NewItems(small, run), lines: newEventBatches(cfg, run)}
}

// crowdBatchConfig is for the calls of a crowd, whose batches grow with the load.
func crowdBatchConfig(timeout time.Duration) batch.Config {
	cfg := batchConfig(timeout)
	cfg.Delay, cfg.Overlap = crowdDelay, crowdOverlap
	return cfg
}

func pollBatchConfig() batch.Config {
	cfg := crowdBatchConfig(callTimeout)
	cfg.Inflight = pollInflight
	return cfg
}

// Do adds an item to a batch of its line, and waits for its result.
func (b *lineBatches[I, O]) Do(ctx context.Context, event string, item I) (O, error) {
	if b.known.Known(event) {
		return b.lines.Do(ctx, event, item)
	}
	return b.unknown.Do(ctx, item)
}

// Close waits for the calls in flight.
func (b *lineBatches[I, O]) Close(ctx context.Context) error {
	return closeAll(ctx, b.lines, b.unknown)
}

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
