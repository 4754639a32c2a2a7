package roomstate

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"google.golang.org/grpc"

	"urr.guru/pkg/loop"
	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

const (
	// refreshEvery is how often the state that visitors ask for is fetched while the stream is broken.
	refreshEvery = time.Second
	refreshMax   = 100 // events per call, as the interface allows
	refreshTime  = 800 * time.Millisecond
	// silence is how long a stream may say nothing: vwr sends a message without a change every second, so it is a replica that hangs.
	silence = 5 * time.Second
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
	return loop.Follow(ctx, log, "waiting rooms", func(ctx context.Context) (bool, error) {
		defer r.broken.Store(true)
		return r.read(ctx, src)
	})
}

// read keeps r up to date along one stream.
func (r *Rooms) read(ctx context.Context, src Source) (heard bool, err error) {
	open := func(ctx context.Context) (loop.Stream[*vwrv1.WatchCountersResponse], error) {
		return src.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	}
	return loop.Read(ctx, silence, open, func(ctx context.Context, msg *vwrv1.WatchCountersResponse) error {
		r.apply(msg.GetCounters())
		if !msg.GetSnapshot() {
			return nil
		}
		if err := r.settle(ctx, src, msg.GetCounters()); err != nil {
			return err
		}
		r.broken.Store(false)
		r.ready.Store(true)
		return nil
	})
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
	for loop.Sleep(ctx, refreshEvery) {
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
