// Package linestate keeps the epoch of every tier-2 waiting line in memory. A line that was lost
// and rebuilt has a new epoch. So entry tokens from before the loss are refused without a call per
// request. The queue service streams the epochs, the sale statuses of events, and which lines are
// paused, with a message at least every 3 s. Statuses and pauses are passed on to a SaleStatuses.
package linestate

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/loop"
	"urr.guru/services/gateway/internal/edge"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// Stale is how long the queue service may send no message. After that the gateway asks it about
// every epoch, instead of using the epochs that it has.
const Stale = 10 * time.Second

// saleStatusTTL is how long a sale status is kept after the first snapshot without it, since a
// replica of the queue service that has just started knows few events.
const saleStatusTTL = 10 * time.Second

type lineEpochs struct {
	epoch      int64
	prevEpoch  int64 // 0 = unknown
	pauseUntil int64 // epoch ms
	listed     time.Time
}

// forgetAfter is how long a line is kept after the last message with it: longer than replicas of
// the queue service can disagree. The queue service decides about tokens of unknown lines.
const forgetAfter = time.Hour

// SaleStatuses receives the sale status of events, and which lines are paused.
type SaleStatuses interface {
	// SetSaleStatuses stores statuses by event id; "" means that the status is no longer known.
	SetSaleStatuses(statuses map[string]string)
	// SetPaused stores, by event id, whether an operator has paused the line.
	SetPaused(lines map[string]bool)
}

// Lines has the epoch of every line in the queue service's stream. It is safe for concurrent use.
type Lines struct {
	now   func() time.Time
	sales SaleStatuses
	last  atomic.Int64 // ns of the last message
	mu    sync.RWMutex
	lines map[string]lineEpochs
	// missingSince has every event whose sale status was published, with the time since which messages
	// lack it; zero while the status is current. Only Watch uses it.
	missingSince map[string]time.Time
}

var _ edge.Lines = (*Lines)(nil)

// New makes Lines that know no line: before the first message, every verdict is Unsure.
func New(now func() time.Time, sales SaleStatuses) *Lines {
	return &Lines{now: now, sales: sales, lines: map[string]lineEpochs{}, missingSince: map[string]time.Time{}}
}

// Verdict says what is known about the epoch of an entry token. While a rebuilt line is paused,
// tokens of the previous epoch count too, since their holders are moved to the new one. It is
// Unsure for an unknown line, for a token newer than the last message, and after Stale without a
// message.
func (l *Lines) Verdict(event string, epoch int64) edge.EpochVerdict {
	now := l.now()
	if now.UnixNano()-l.last.Load() > int64(Stale) {
		return edge.Unsure
	}
	l.mu.RLock()
	ln, known := l.lines[event]
	l.mu.RUnlock()
	switch {
	case !known || epoch > ln.epoch:
		return edge.Unsure
	case epoch == ln.epoch || epoch >= ln.prevEpoch && now.UnixMilli() < ln.pauseUntil:
		return edge.Honoured
	default:
		return edge.Refused
	}
}

// Known reports whether the queue service has ever listed the line.
func (l *Lines) Known(event string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.lines[event]
	return ok
}

// Source streams the lines. It is the client of the queue service.
type Source interface {
	WatchLines(ctx context.Context, in *queuev1.WatchLinesRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[queuev1.WatchLinesResponse], error)
}

// Watch keeps l up to date until ctx ends.
func (l *Lines) Watch(ctx context.Context, src Source, log *slog.Logger) error {
	open := func(ctx context.Context) (loop.Stream[*queuev1.WatchLinesResponse], error) {
		return src.WatchLines(ctx, &queuev1.WatchLinesRequest{})
	}
	handle := func(_ context.Context, msg *queuev1.WatchLinesResponse) error {
		l.applyLines(msg)
		l.publishSales(msg)
		l.publishPauses(msg)
		return nil
	}
	return loop.Follow(ctx, log, "lines", func(ctx context.Context) (bool, error) {
		return loop.Read(ctx, Stale, open, handle)
	})
}

// applyLines stores the epochs of a message. It never lowers an epoch, since the replica that sends
// may know only an older one. Epoch 0 means that the event has no line. After a snapshot it drops
// lines that were not listed for forgetAfter, so that ended lines do not add up over months.
func (l *Lines) applyLines(msg *queuev1.WatchLinesResponse) {
	now := l.now()
	l.mu.Lock()
	for _, ln := range msg.GetLines() {
		known := l.lines[ln.GetEventId()]
		switch {
		case ln.GetEpoch() == 0:
			continue
		case ln.GetEpoch() >= known.epoch:
			known = lineEpochs{epoch: ln.GetEpoch(), prevEpoch: ln.GetPrevEpoch(), pauseUntil: ln.GetPauseUntil()}
		}
		known.listed = now
		l.lines[ln.GetEventId()] = known
	}
	if msg.GetSnapshot() {
		maps.DeleteFunc(l.lines, func(_ string, ln lineEpochs) bool { return now.Sub(ln.listed) > forgetAfter })
	}
	l.mu.Unlock()
	l.last.Store(now.UnixNano())
}

// publishSales publishes the sale statuses of a message, and clears those that messages have lacked
// for saleStatusTTL. The status in a message with an old epoch counts too, since all replicas have
// the same statuses within a second or two. While the stream is broken, all statuses stay.
func (l *Lines) publishSales(msg *queuev1.WatchLinesResponse) {
	sales := make(map[string]string, len(msg.GetLines()))
	for _, ln := range msg.GetLines() {
		if status := ln.GetSaleStatus(); status != "" {
			sales[ln.GetEventId()] = status
		}
	}
	l.markMissing(msg, sales)
	for event := range sales {
		l.missingSince[event] = time.Time{}
	}
	for event, since := range l.missingSince {
		if !since.IsZero() && l.now().Sub(since) >= saleStatusTTL {
			sales[event] = ""
			delete(l.missingSince, event)
		}
	}
	if len(sales) > 0 {
		l.sales.SetSaleStatuses(sales)
	}
}

func (l *Lines) publishPauses(msg *queuev1.WatchLinesResponse) {
	if len(msg.GetLines()) == 0 {
		return
	}
	paused := make(map[string]bool, len(msg.GetLines()))
	for _, ln := range msg.GetLines() {
		paused[ln.GetEventId()] = ln.GetPaused()
	}
	l.sales.SetPaused(paused)
}

// markMissing records when a published status was first missing from a message that should contain
// it: from a snapshot, which should list every event, or from a listed line.
func (l *Lines) markMissing(msg *queuev1.WatchLinesResponse, sales map[string]string) {
	mark := func(event string) {
		if since, ok := l.missingSince[event]; ok && since.IsZero() && sales[event] == "" {
			l.missingSince[event] = l.now()
		}
	}
	for _, ln := range msg.GetLines() {
		mark(ln.GetEventId())
	}
	if msg.GetSnapshot() {
		for event := range l.missingSince {
			mark(event)
		}
	}
}
