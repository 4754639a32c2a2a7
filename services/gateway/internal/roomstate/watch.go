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
	// refreshEvery is how often requested states are fetched while the stream is broken.
	refreshEvery   = time.Second
	refreshMax     = 100 // events per call, the limit of GetCounters
	refreshTimeout = 800 * time.Millisecond
	// silenceTimeout is how long a stream may send nothing. The vwr service sends a message every
	// second even without a change, so a replica that sends none hangs.
	silenceTimeout = 5 * time.Second
)

// Source provides the states of the waiting rooms. Outside tests it calls the vwr service.
type Source interface {
	WatchCounters(ctx context.Context, in *vwrv1.WatchCountersRequest, opts ...grpc.CallOption) (grpc.ServerStreamingClient[vwrv1.WatchCountersResponse], error)
	GetCounters(ctx context.Context, in *vwrv1.GetCountersRequest, opts ...grpc.CallOption) (*vwrv1.GetCountersResponse, error)
}

// Watch keeps r up to date until ctx ends. It reopens a broken stream with back-off. In the
// meantime it fetches the states that callers of Get need each second, in one call for all known
// events and one for all unknown ones.
func (r *Rooms) Watch(ctx context.Context, src Source, log *slog.Logger) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.fetchRequested(ctx, src, log)
	}()
	defer func() { <-done }()
	return loop.Follow(ctx, log, "waiting rooms", func(ctx context.Context) (bool, error) {
		defer r.broken.Store(true)
		return r.readStream(ctx, src)
	})
}

func (r *Rooms) readStream(ctx context.Context, src Source) (received bool, err error) {
	open := func(ctx context.Context) (loop.Stream[*vwrv1.WatchCountersResponse], error) {
		return src.WatchCounters(ctx, &vwrv1.WatchCountersRequest{})
	}
	return loop.Read(ctx, silenceTimeout, open, func(ctx context.Context, msg *vwrv1.WatchCountersResponse) error {
		r.applyCounters(msg.GetCounters())
		if !msg.GetSnapshot() {
			return nil
		}
		if err := r.verifyUnlisted(ctx, src, msg.GetCounters()); err != nil {
			return err
		}
		r.forgetEnded()
		r.broken.Store(false)
		r.ready.Store(true)
		return nil
	})
}

// verifyUnlisted fetches the rooms that are active here and missing in a snapshot. A replica lists
// the rooms that were active since it started. So a missing room may have been deactivated while
// the stream was broken, or just activated through another replica.
func (r *Rooms) verifyUnlisted(ctx context.Context, src Source, snapshot []*vwrv1.Counter) error {
	for part := range slices.Chunk(r.activeRoomsMissingIn(snapshot), refreshMax) {
		if err := r.fetchRooms(ctx, src, part); err != nil {
			return err
		}
	}
	return nil
}

// fetchRequested fetches, each second while the stream is broken, the states that callers of Get
// need.
func (r *Rooms) fetchRequested(ctx context.Context, src Source, log *slog.Logger) {
	for loop.Sleep(ctx, refreshEvery) {
		if !r.broken.Load() {
			continue
		}
		known, unknown := r.takeRequested()
		for _, ids := range [][]string{known, unknown} {
			if len(ids) == 0 {
				continue
			}
			if err := r.fetchRooms(ctx, src, ids); err != nil {
				log.DebugContext(ctx, "waiting room state not refreshed", "error", err.Error())
			}
		}
	}
}

// fetchRooms reads the state of at most refreshMax events from the vwr service's table. It
// deactivates rooms that no longer exist.
func (r *Rooms) fetchRooms(ctx context.Context, src Source, events []string) error {
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	res, err := src.GetCounters(ctx, &vwrv1.GetCountersRequest{EventIds: events})
	if err != nil {
		return err
	}
	missing := make(map[string]bool, len(events))
	for _, id := range events {
		missing[id] = true
	}
	for _, c := range res.GetCounters() {
		delete(missing, c.GetEventId())
	}
	r.applyCounters(res.GetCounters())
	r.deactivate(missing)
	return nil
}
