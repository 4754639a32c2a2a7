package lines_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/services/gateway/internal/edge"
	"urr.guru/services/gateway/internal/lines"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// source is a queue whose streams the test feeds.
type source struct {
	msgs   chan *queuev1.WatchLinesResponse
	opened chan struct{}
}

type stream struct {
	grpc.ClientStream

	ctx  context.Context //nolint:containedctx // the stream's own
	msgs chan *queuev1.WatchLinesResponse
}

func (s stream) Recv() (*queuev1.WatchLinesResponse, error) {
	select {
	case m, ok := <-s.msgs:
		if !ok {
			return nil, errors.New("cut")
		}
		return m, nil
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *source) WatchLines(ctx context.Context, _ *queuev1.WatchLinesRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[queuev1.WatchLinesResponse], error) {
	s.opened <- struct{}{}
	return stream{ctx: ctx, msgs: s.msgs}, nil
}

func watch(t *testing.T) (*lines.Lines, *source, func()) {
	t.Helper()
	l, src := lines.New(time.Now), &source{msgs: make(chan *queuev1.WatchLinesResponse), opened: make(chan struct{}, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Watch(ctx, src, slog.New(slog.DiscardHandler)) }()
	return l, src, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

func beat(src *source, ls ...*queuev1.Line) {
	src.msgs <- &queuev1.WatchLinesResponse{Lines: ls}
	synctest.Wait()
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		require.Equal(t, edge.Unsure, l.Verdict("e", 5), "nothing is known yet")
		beat(src, &queuev1.Line{EventId: "e", Epoch: 5})
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
		require.Equal(t, edge.Refused, l.Verdict("e", 4))
		require.Equal(t, edge.Unsure, l.Verdict("e", 6), "queue may be ahead of its own message")
		require.Equal(t, edge.Unsure, l.Verdict("unheard-of", 5))

		pause := time.Now().Add(5 * time.Second)
		beat(src, &queuev1.Line{EventId: "e", Epoch: 7, PauseUntil: pause.UnixMilli()})
		require.Equal(t, edge.Honoured, l.Verdict("e", 5), "holders are being taken over")
		time.Sleep(time.Until(pause))
		require.Equal(t, edge.Refused, l.Verdict("e", 5))
		require.Equal(t, edge.Honoured, l.Verdict("e", 7))

		beat(src, &queuev1.Line{EventId: "e", Epoch: 5}) // another replica, behind
		require.Equal(t, edge.Honoured, l.Verdict("e", 7))
		require.Equal(t, edge.Refused, l.Verdict("e", 5))
	})
}

func TestSilence(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		beat(src, &queuev1.Line{EventId: "e", Epoch: 5})
		require.Len(t, src.opened, 1)
		time.Sleep(lines.Stale - time.Second)
		beat(src) // a beat says: nothing has changed
		time.Sleep(lines.Stale)
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
		require.Equal(t, edge.Refused, l.Verdict("e", 4))
		time.Sleep(time.Millisecond)
		require.Equal(t, edge.Unsure, l.Verdict("e", 5))
		require.Equal(t, edge.Unsure, l.Verdict("e", 4))
		time.Sleep(time.Second)
		require.Len(t, src.opened, 2, "a stream that has gone silent is opened again")
		beat(src)
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
	})
}

func TestBackOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, src, stop := watch(t)
		defer stop()
		close(src.msgs)
		time.Sleep(30 * time.Second)
		require.Less(t, len(src.opened), 30)
		require.Greater(t, len(src.opened), 5)
	})
}
