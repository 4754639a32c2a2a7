package rpc

import (
	"time"

	"google.golang.org/grpc"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

// watchGap is the least time between two messages of a stream: an event changes at most five times a second for a gateway, however
// many positions are given out.
const watchGap = 200 * time.Millisecond

// WatchCounters sends every event, then what changes, until the gateway goes or the connection ends.
func (v *Visitors) WatchCounters(_ *vwrv1.WatchCountersRequest, stream grpc.ServerStreamingServer[vwrv1.WatchCountersResponse]) error {
	ctx := stream.Context()
	watchers.Inc()
	defer watchers.Dec()
	w := v.board.Watch()
	for snapshot := true; ; snapshot = false {
		states, err := w.Next(ctx)
		if err != nil {
			return nil // the watcher has gone, which is how every stream ends
		}
		if err := stream.Send(&vwrv1.WatchCountersResponse{Counters: counters(states), Snapshot: snapshot}); err != nil {
			return err
		}
		select {
		case <-time.After(watchGap):
		case <-ctx.Done():
			return nil
		}
	}
}
