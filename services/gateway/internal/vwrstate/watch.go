package vwrstate

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math/rand/v2"
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s, err := src.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	if err != nil {
		return false, err
	}
	for {
		msg, err := s.Recv()
		if errors.Is(err, io.EOF) {
			return heard, errors.New("ended by vwr")
		}
		if err != nil {
			return heard, err
		}
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
	ids := r.unlisted(snapshot)
	for len(ids) > 0 {
		part := ids[:min(len(ids), refreshMax)]
		ids = ids[len(part):]
		call, cancel := context.WithTimeout(ctx, refreshTime)
		res, err := src.GetCounters(call, &vwrv1.GetCountersRequest{EventIds: part})
		cancel()
		if err != nil {
			return err
		}
		r.apply(res.GetCounters())
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
		call, cancel := context.WithTimeout(ctx, refreshTime)
		res, err := src.GetCounters(call, &vwrv1.GetCountersRequest{EventIds: ids})
		cancel()
		if err != nil {
			log.DebugContext(ctx, "waiting room state not refreshed", "error", err.Error())
			continue
		}
		r.apply(res.GetCounters())
	}
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
