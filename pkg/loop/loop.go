// Package loop has the two ways in which a background worker goes round: again and again, and along
// a stream that is opened anew whenever it breaks.
package loop

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"time"
)

// Every calls do now, and then each time the interval has passed, until ctx ends. A call that takes
// longer than the interval is followed by the next one at once. It returns nil, as a worker of
// lifecycle.App does that has done its work.
func Every(ctx context.Context, interval time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do(ctx)
		wait(ctx, ticker.C)
	}
	return nil
}

// After is Every without the first call: the interval passes before anything is done.
func After(ctx context.Context, interval time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for wait(ctx, ticker.C) {
		do(ctx)
	}
	return nil
}

// The pauses before a stream is opened anew: each twice as long as the one before, spread over its
// second half.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
)

// Follow calls read, which returns when the stream it opened has broken, until ctx ends. A stream
// on which something was heard is opened again soon; others with back-off.
func Follow(ctx context.Context, log *slog.Logger, name string, read func(context.Context) (heard bool, err error)) error {
	backoff := minBackoff
	for {
		heard, err := read(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the stream ended because it should
		}
		level := slog.LevelWarn
		if heard { // connections end by age, too
			backoff, level = minBackoff, slog.LevelInfo
		}
		log.Log(ctx, level, "stream broken", "of", name, "error", err.Error(), "again_in", backoff.String())
		if !Sleep(ctx, backoff/2+rand.N(backoff/2+1)) { //nolint:gosec // jitter
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

var (
	errSilent = errors.New("silent for too long")
	errEnded  = errors.New("ended by the other side")
)

// Stream is what gRPC's server streams are for who reads them.
type Stream[M any] interface{ Recv() (M, error) }

// Read opens a stream and hands its messages to take until it breaks, take fails, or nothing comes
// for the time of silence: a peer that hangs would never end the stream by itself. It reports
// whether take was content with a message; the error is never nil.
func Read[M any](ctx context.Context, silence time.Duration, open func(context.Context) (Stream[M], error), take func(context.Context, M) error) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stream, err := open(ctx)
	if err != nil {
		return false, err
	}
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()
	for {
		msg, err := stream.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return heard, errEnded
		case err != nil && ctx.Err() != nil:
			return heard, context.Cause(ctx)
		case err != nil:
			return heard, err
		}
		alarm.Reset(silence)
		if err := take(ctx, msg); err != nil {
			return heard, err
		}
		heard = true
	}
}

// Sleep waits; it reports false when ctx ended first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	return wait(ctx, timer.C)
}

func wait(ctx context.Context, c <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}
