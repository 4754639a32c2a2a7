// Package loop runs the two kinds of background loops: calls at an interval, and reading a stream
// that is reopened when it breaks.
package loop

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Every calls do at once and then at the interval until ctx ends. A call that takes longer than the
// interval is followed by the next one immediately. The result is always nil, so that a worker of
// lifecycle.App can return it.
func Every(ctx context.Context, interval time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		do(ctx)
		waitFor(ctx, ticker.C)
	}
	return nil
}

// Start runs Every in a goroutine. stop ends the loop and waits for its last call.
func Start(ctx context.Context, interval time.Duration, do func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = Every(ctx, interval, do) }) // never fails
	return func() {
		cancel()
		running.Wait()
	}
}

// Try is like Every, for calls that may fail: failures are logged with the message.
func Try(ctx context.Context, interval time.Duration, log *slog.Logger, message string, do func(context.Context) error) error {
	return Every(ctx, interval, func(ctx context.Context) {
		if err := do(ctx); err != nil && ctx.Err() == nil {
			log.WarnContext(ctx, message, "error", err) //nolint:sloglint // a constant of the caller
		}
	})
}

// Pruner returns a worker that calls prune, which deletes old rows, at the interval until its
// context ends. It logs failures like Try. The first wait is random, so that replicas do not prune
// at the same time, nor while they start.
func Pruner(every time.Duration, log *slog.Logger, message string, prune func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		Sleep(ctx, rand.N(every)) //nolint:gosec // jitter
		return Try(ctx, every, log, message, prune)
	}
}

// Batches repeats a statement that deletes up to size rows until it deletes fewer: no row is left,
// or other replicas delete them. It returns the total number of deleted rows, also with an error.
func Batches(ctx context.Context, size int32, remove func(context.Context, int32) (int64, error)) (total int64, err error) {
	for n := int64(size); n >= int64(size) && err == nil; total += n {
		n, err = remove(ctx, size)
	}
	return total, err
}

// Tick is like Every, but makes the first call only after one interval.
func Tick(ctx context.Context, interval time.Duration, do func(context.Context)) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for waitFor(ctx, ticker.C) {
		do(ctx)
	}
	return nil
}

// The pauses before a stream is reopened: each is twice the previous one, and half of it is random.
const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
)

// Follow keeps a stream open until ctx ends: it calls read, which opens the stream and returns when
// the stream breaks, again and again, with growing pauses. After a stream that received something
// the pauses start again at the shortest.
func Follow(ctx context.Context, log *slog.Logger, name string, read func(context.Context) (received bool, err error)) error {
	backoff := minBackoff
	for {
		received, err := read(ctx)
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the stream ended with ctx
		}
		level := slog.LevelWarn
		if received { // servers also close old connections
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

// Stream is the receiving side of a gRPC server stream.
type Stream[M any] interface{ Recv() (M, error) }

// Read opens a gRPC stream and passes each message to take. It returns when the stream breaks, when
// take fails, or when nothing arrives for the duration silence: a peer that hangs does not end its
// stream. received reports that take accepted at least one message; the error is never nil.
func Read[M any](ctx context.Context, silence time.Duration, open func(context.Context) (Stream[M], error), take func(context.Context, M) error) (received bool, err error) {
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
			return received, errEnded
		case err != nil && ctx.Err() != nil:
			return received, context.Cause(ctx)
		case err != nil:
			return received, err
		}
		alarm.Reset(silence)
		if err := take(ctx, msg); err != nil {
			return received, err
		}
		received = true
	}
}

// Sleep waits for d. It returns false, at once, when ctx ends.
func Sleep(ctx context.Context, d time.Duration) bool { return SleepOrWake(ctx, d, nil) }

// SleepOrWake waits for d, or until wake delivers a token; wake may be nil. It returns false, at
// once, when ctx ends.
func SleepOrWake(ctx context.Context, d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-wake:
		return true
	case <-timer.C:
		return true
	}
}

// Wait waits until the work is done. It returns the error of ctx if ctx ends first.
func Wait(ctx context.Context, work *sync.WaitGroup) error {
	done := make(chan struct{})
	go func() {
		work.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func waitFor(ctx context.Context, c <-chan time.Time) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c:
		return true
	}
}
