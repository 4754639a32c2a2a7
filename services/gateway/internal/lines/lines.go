// Package lines keeps the epoch of every waiting line of tier 2 in memory. Queue streams them with a beat at least every 3 s; the gateway
// uses them to refuse entry tokens of a line that was lost and rebuilt, without a call per request.
package lines

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	"urr.guru/services/gateway/internal/edge"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

const (
	// Stale is how long after the last update the gateway no longer judges by itself.
	Stale      = 10 * time.Second
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
)

type line struct {
	epoch      int64
	pauseUntil int64 // epoch ms
}

// Lines is safe for concurrent use.
type Lines struct {
	now  func() time.Time
	last atomic.Int64 // ns of the last message
	mu   sync.RWMutex
	by   map[string]line
}

var _ edge.Lines = (*Lines)(nil)

// New makes Lines that know nothing yet: until the first message every token has to be asked about.
func New(now func() time.Time) *Lines { return &Lines{now: now, by: map[string]line{}} }

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
	case epoch == ln.epoch || now.UnixMilli() < ln.pauseUntil:
		return edge.Honoured
	default:
		return edge.Refused
	}
}

// Source is where the lines come from.
type Source interface {
	WatchLines(ctx context.Context, in *queuev1.WatchLinesRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[queuev1.WatchLinesResponse], error)
}

// Watch keeps l up to date until ctx ends.
func (l *Lines) Watch(ctx context.Context, src Source, log *slog.Logger) error {
	backoff := minBackoff
	for {
		heard, err := l.stream(ctx, src)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the stream ended because it should
		}
		level := slog.LevelWarn
		if heard { // connections end by age, too
			backoff, level = minBackoff, slog.LevelInfo
		}
		log.Log(ctx, level, "line stream broken", "error", err.Error(), "again_in", backoff.String())
		t := time.NewTimer(backoff/2 + rand.N(backoff/2+1))
		select {
		case <-ctx.Done():
			t.Stop()
			return nil
		case <-t.C:
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

func (l *Lines) stream(ctx context.Context, src Source) (heard bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := src.WatchLines(ctx, &queuev1.WatchLinesRequest{})
	if err != nil {
		return false, err
	}
	// A stream whose peer hangs would never fail by itself; beats come every 3 s.
	silent := time.AfterFunc(Stale, cancel)
	defer silent.Stop()
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return heard, errors.New("ended by queue")
		}
		if err != nil {
			return heard, err
		}
		silent.Reset(Stale)
		l.apply(msg.GetLines())
		heard = true
	}
}

// apply takes what a message says. Epochs never go back: another replica of queue may be behind.
func (l *Lines) apply(lines []*queuev1.Line) {
	l.mu.Lock()
	for _, ln := range lines {
		if old, ok := l.by[ln.GetEventId()]; ok && ln.GetEpoch() < old.epoch {
			continue
		}
		l.by[ln.GetEventId()] = line{epoch: ln.GetEpoch(), pauseUntil: ln.GetPauseUntil()}
	}
	l.mu.Unlock()
	l.last.Store(l.now().UnixNano())
}
