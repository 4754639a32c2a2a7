package vwrstate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"google.golang.org/grpc"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

const (
	minBackoff = 100 * time.Millisecond
	maxBackoff = 3 * time.Second
	// refreshEvery is how often the state that visitors ask for is fetched while the stream is broken.
	refreshEvery = time.Second
	refreshMax   = 100 // events per call, as the interface allows
	refreshTime  = 800 * time.Millisecond
	// silence is how long a stream may say nothing: vwr sends a message without a change every second, so it is a replica that hangs.
	silence = 5 * time.Second
)

var (
	errSilent = errors.New("silent")
	errEnded  = errors.New("ended by vwr")
)

// Source is where the state comes from.
type Source interface {
	WatchCounters(ctx context.Context, in *vwrv1.WatchCountersRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[vwrv1.WatchCountersResponse], error)
	GetCounters(ctx context.Context, in *vwrv1.GetCountersRequest, opts ...grpc.CallOption) (*vwrv1.GetCountersResponse, error)
}

// Watch keeps r up to date until ctx ends. A broken stream is opened again with back-off; meanwhile what readers ask for is fetched, one
// call per second for all of them together.
func (r *Rooms) Watch(ctx context.Context, src Source, log *slog.Logger) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.refresh(ctx, src, log)
	}()
	defer func() { <-done }()
	backoff := minBackoff
	for {
		heard, err := r.stream(ctx, src)
		if ctx.Err() != nil {
			return nil
		}
		r.broken.Store(true)
		level := slog.LevelWarn
		if heard { // connections end by age, too
			backoff, level = minBackoff, slog.LevelInfo
		}
		log.Log(ctx, level, "waiting room stream broken", "error", err.Error(), "again_in", backoff.String())
		if !sleep(ctx, jitter(backoff)) {
			return nil
		}
		backoff = min(2*backoff, maxBackoff)
	}
}

// stream reads one stream to its end; heard tells whether it was any good.
func (r *Rooms) stream(ctx context.Context, src Source) (heard bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s, err := src.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	if err != nil {
		return false, err
	}
	alarm := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer alarm.Stop()
	for {
		msg, err := s.Recv()
		switch {
		case errors.Is(err, io.EOF):
			return heard, errEnded
		case err != nil && ctx.Err() != nil:
			return heard, context.Cause(ctx)
		case err != nil:
			return heard, err
		}
		alarm.Reset(silence)
		r.apply(msg.GetCounters())
		if msg.GetSnapshot() {
			if err := r.settle(ctx, src, msg.GetCounters()); err != nil {
				return heard, err
			}
			heard = true
			r.broken.Store(false)
			r.ready.Store(true)
		}
	}
}

// settle asks for the rooms that are open here and not in a snapshot. A replica knows the rooms that were open since it started: one
// that was shut while nobody watched is missing, but so is, for a moment, one that another replica has just opened.
func (r *Rooms) settle(ctx context.Context, src Source, snapshot []*vwrv1.Counter) error {
	for part := range slices.Chunk(r.unlisted(snapshot), refreshMax) {
		if err := r.fetch(ctx, src, part); err != nil {
			return err
		}
	}
	return nil
}

// refresh fetches what readers ask for while the stream is broken.
func (r *Rooms) refresh(ctx context.Context, src Source, log *slog.Logger) {
	for sleep(ctx, refreshEvery) {
		if !r.broken.Load() {
			continue
		}
		ids := r.wanted(refreshMax)
		if len(ids) == 0 {
			continue
		}
		if err := r.fetch(ctx, src, ids); err != nil {
			log.DebugContext(ctx, "waiting room state not refreshed", "error", err.Error())
		}
	}
}

// fetch reads the state of events from the table, at most refreshMax. A room that is not there any more is shut.
func (r *Rooms) fetch(ctx context.Context, src Source, events []string) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	res, err := src.GetCounters(ctx, &vwrv1.GetCountersRequest{EventIds: events})
	if err != nil {
		return err
	}
	gone := make(map[string]bool, len(events))
	for _, id := range events {
		gone[id] = true
	}
	for _, c := range res.GetCounters() {
		delete(gone, c.GetEventId())
	}
	r.apply(res.GetCounters())
	r.shut(gone)
	return nil
}

func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// jitter spreads the gateways' attempts: half of d and up to as much again.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }
