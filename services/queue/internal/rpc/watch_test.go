package rpc_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/rpc"
)

// watched implements only WatchLines, with a cache.
type watched struct {
	rpc.GatewayCalls
	*line.LineCache
}

func (w watched) WatchLines(ctx context.Context, send func(lines []line.LineUpdate, snapshot bool) error) error {
	return w.Watch(ctx, send)
}

// registrar keeps the visitors' service that Register registers.
type registrar struct{ visitors queuev1.QueueServiceServer }

func (r *registrar) RegisterService(_ *grpc.ServiceDesc, impl any) {
	if v, ok := impl.(queuev1.QueueServiceServer); ok {
		r.visitors = v
	}
}

// recorder is the server's end of a stream. It passes sent messages to a channel.
type recorder struct {
	grpc.ServerStream

	ctx  context.Context //nolint:containedctx // as a stream has it
	sent chan *queuev1.WatchLinesResponse
}

func (r recorder) Context() context.Context { return r.ctx }

func (r recorder) Send(msg *queuev1.WatchLinesResponse) error {
	r.sent <- msg
	return nil
}

// A stream sends at most one message per 100 ms, and a heartbeat if nothing changes. It ends with
// the process.
func TestWatchIsThrottledAndSendsHeartbeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache, r, stop := line.NewLineCache(time.Now), &registrar{}, make(chan struct{})
		rpc.Register(r, nil, watched{LineCache: cache}, nil, stop)
		stream := recorder{ctx: t.Context(), sent: make(chan *queuev1.WatchLinesResponse, 100)}
		done := make(chan error, 1)
		start := time.Now()
		go func() { done <- r.visitors.WatchLines(nil, stream) }()

		require.True(t, (<-stream.sent).GetSnapshot())
		for i := range 10 { // one change every 10 ms; all are sent in one message
			cache.Observe("ev", line.LineState{Epoch: int64(i + 1), Revision: 1, Now: 1})
			<-time.After(10 * time.Millisecond)
		}
		change := <-stream.sent
		require.Equal(t, 100*time.Millisecond, time.Since(start))
		require.False(t, change.GetSnapshot())
		require.Len(t, change.GetLines(), 1)
		require.Equal(t, int64(10), change.GetLines()[0].GetEpoch())

		beat := <-stream.sent
		require.Equal(t, 100*time.Millisecond+100*time.Millisecond+2*time.Second, time.Since(start))
		require.False(t, beat.GetSnapshot())
		require.Empty(t, beat.GetLines())

		close(stop)
		require.NoError(t, <-done)
	})
}
