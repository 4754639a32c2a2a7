package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/room"
)

// watchInterval is the shortest time between two messages of a stream, so that an event is sent at
// most five times a second.
const watchInterval = 200 * time.Millisecond

// heartbeatInterval is the longest time between two messages of a stream. A message without
// counters shows that the replica is alive.
const heartbeatInterval = time.Second

func (v *Visitors) WatchCounters(_ *vwrv1.WatchCountersRequest, stream grpc.ServerStreamingServer[vwrv1.WatchCountersResponse]) error {
	ctx := stream.Context()
	watchers.Inc()
	defer watchers.Dec()
	w := v.cache.Watch()
	states, err := w.Next(ctx) // blocks until the cache is loaded
	for snapshot := true; err == nil; snapshot = false {
		if err := stream.Send(&vwrv1.WatchCountersResponse{Counters: fromStates(states), Snapshot: snapshot, Stalled: v.cache.Stale()}); err != nil {
			return err
		}
		select {
		case <-time.After(watchInterval):
		case <-ctx.Done():
		}
		states, err = nextChanges(ctx, w)
	}
	return nil // the regular end: the client has closed the stream
}

// nextChanges waits for changes, for at most heartbeatInterval.
func nextChanges(ctx context.Context, w *room.Watcher) ([]room.State, error) {
	beat, cancel := context.WithTimeout(ctx, heartbeatInterval)
	defer cancel()
	states, err := w.Next(beat)
	if err != nil {
		return nil, ctx.Err()
	}
	return states, nil
}
