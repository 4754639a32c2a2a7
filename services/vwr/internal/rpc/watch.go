package rpc

import (
	"context"
	"time"

	"google.golang.org/grpc"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
	"urr.guru/services/vwr/internal/room"
)

// watchGap is the least time between two messages of a stream: an event changes at most five times a second for a gateway, however
// many positions are given out.
const watchGap = 200 * time.Millisecond

// watchBeat is the longest silence of a stream: after it a message without a change tells that the replica lives.
const watchBeat = time.Second

// WatchCounters sends every event, then what changes, until the gateway goes or the connection ends.
func (v *Visitors) WatchCounters(_ *vwrv1.WatchCountersRequest, stream grpc.ServerStreamingServer[vwrv1.WatchCountersResponse]) error {
	ctx := stream.Context()
	watchers.Inc()
	defer watchers.Dec()
	w := v.board.Watch()
	states, err := w.Next(ctx) // however long it takes: a replica that knows nothing yet has nothing to say
	for snapshot := true; err == nil; snapshot = false {
		if err := stream.Send(&vwrv1.WatchCountersResponse{Counters: counters(states), Snapshot: snapshot}); err != nil {
			return err
		}
		select {
		case <-time.After(watchGap):
		case <-ctx.Done():
		}
		states, err = changes(ctx, w)
	}
	return nil // the watcher has gone, which is how every stream ends
}

// changes waits for changes, or for a beat without any.
func changes(ctx context.Context, w *room.Watcher) ([]room.State, error) {
	beat, cancel := context.WithTimeout(ctx, watchBeat)
	defer cancel()
	states, err := w.Next(beat)
	if err != nil {
		return nil, ctx.Err()
	}
	return states, nil
}
