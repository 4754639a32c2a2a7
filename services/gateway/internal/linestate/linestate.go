// Package linestate keeps the epoch of every waiting line of tier 2 in memory. Queue streams them with a beat at least every 3 s; the gateway
// uses them to refuse entry tokens of a line that was lost and rebuilt, without a call per request.
// The same stream says where the events' sales stand, which is passed on.
package linestate

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/loop"
	"urr.guru/services/gateway/internal/edge"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// Stale is how long after the last update the gateway no longer judges by itself.
const Stale = 10 * time.Second

// forget is how long a word outlives the first snapshot that lacks it. A replica of queue that has
// just started hears of its events one after the other.
const forget = 10 * time.Second

type line struct {
	epoch      int64
	prev       int64 // the epoch before; 0 = not known
	pauseUntil int64 // epoch ms
}

// Sales hears where the events' sales stand.
type Sales interface {
	// Sales takes words by event, "" for one of which nothing is known any more.
	Sales(sales map[string]string)
}

// Lines is safe for concurrent use.
type Lines struct {
	now   func() time.Time
	sales Sales
	last  atomic.Int64 // ns of the last message
	mu    sync.RWMutex
	by    map[string]line
	// said are the events whose sale has a word, each with since when no stream has said it: zero
	// while one does. Only Watch uses it.
	said map[string]time.Time
}

var _ edge.Lines = (*Lines)(nil)

// New makes Lines that know nothing yet: until the first message every token has to be asked about.
func New(now func() time.Time, sales Sales) *Lines {
	return &Lines{now: now, sales: sales, by: map[string]line{}, said: map[string]time.Time{}}
}

// Verdict judges the epoch of an entry token. During a line's pause those of the epoch before are honoured, as their holders are being
// taken over. A line that is not known, or a token newer than the last message, is for queue to judge, and so is everything while
// no message has come for Stale.
func (l *Lines) Verdict(event string, epoch int64) edge.Verdict {
	now := l.now()
	if now.UnixNano()-l.last.Load() > int64(Stale) {
		return edge.Unsure
	}
	l.mu.RLock()
	ln, known := l.by[event]
	l.mu.RUnlock()
	switch {
	case !known || epoch > ln.epoch:
		return edge.Unsure
	case epoch == ln.epoch || epoch >= ln.prev && now.UnixMilli() < ln.pauseUntil:
		return edge.Honoured
	default:
		return edge.Refused
	}
}

// Known reports whether queue has ever named the line.
func (l *Lines) Known(event string) bool {
	l.mu.RLock()
	defer l.mu.RUnlock()
	_, ok := l.by[event]
	return ok
}

// Source is where the lines come from.
type Source interface {
	WatchLines(ctx context.Context, in *queuev1.WatchLinesRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[queuev1.WatchLinesResponse], error)
}

// Watch keeps l up to date until ctx ends.
func (l *Lines) Watch(ctx context.Context, src Source, log *slog.Logger) error {
	open := func(ctx context.Context) (loop.Stream[*queuev1.WatchLinesResponse], error) {
		return src.WatchLines(ctx, &queuev1.WatchLinesRequest{})
	}
	take := func(_ context.Context, msg *queuev1.WatchLinesResponse) error {
		l.apply(msg.GetLines())
		l.sell(msg)
		return nil
	}
	return loop.Follow(ctx, log, "lines", func(ctx context.Context) (bool, error) {
		return loop.Read(ctx, Stale, open, take) // beats come every 3 s
	})
}

// apply takes what a message says. Epochs never go back: another replica of queue may be behind.
// Epoch 0 is an event that has no line yet.
func (l *Lines) apply(lines []*queuev1.Line) {
	l.mu.Lock()
	for _, ln := range lines {
		if ln.GetEpoch() == 0 || ln.GetEpoch() < l.by[ln.GetEventId()].epoch {
			continue
		}
		l.by[ln.GetEventId()] = line{epoch: ln.GetEpoch(), prev: ln.GetPrevEpoch(), pauseUntil: ln.GetPauseUntil()}
	}
	l.mu.Unlock()
	l.last.Store(l.now().UnixNano())
}

// sell passes on where the sales stand. The last word counts, however old a line's epoch is: the
// streams of all replicas say the same within a second or two. Until there is another stream the
// words stay.
func (l *Lines) sell(msg *queuev1.WatchLinesResponse) {
	sales := make(map[string]string, len(msg.GetLines()))
	for _, ln := range msg.GetLines() {
		if word := ln.GetSaleStatus(); word != "" {
			sales[ln.GetEventId()] = word
		}
	}
	l.doubt(msg, sales)
	for event := range sales {
		l.said[event] = time.Time{}
	}
	for event, since := range l.said {
		if !since.IsZero() && l.now().Sub(since) >= forget {
			sales[event] = ""
			delete(l.said, event)
		}
	}
	if len(sales) > 0 {
		l.sales.Sales(sales)
	}
}

// doubt notes the words that a message does not repeat although it should: a snapshot names all that
// its replica knows of, and a line without a word has none there.
func (l *Lines) doubt(msg *queuev1.WatchLinesResponse, sales map[string]string) {
	suspect := func(event string) {
		if since, ok := l.said[event]; ok && since.IsZero() && sales[event] == "" {
			l.said[event] = l.now()
		}
	}
	for _, ln := range msg.GetLines() {
		suspect(ln.GetEventId())
	}
	if msg.GetSnapshot() {
		for event := range l.said {
			suspect(event)
		}
	}
}
