package linestate_test

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
	"urr.guru/services/gateway/internal/linestate"

	queuev1 "urr.guru/proto/gen/urr/queue/v1"
)

// source is a fake queue service. The test sends its messages.
type source struct {
	msgs   chan *queuev1.WatchLinesResponse
	opened chan struct{}
}

type stream struct {
	grpc.ClientStream

	ctx  context.Context //nolint:containedctx // the stream's context
	msgs chan *queuev1.WatchLinesResponse
}

func (s stream) Recv() (*queuev1.WatchLinesResponse, error) {
	select {
	case m, ok := <-s.msgs:
		if !ok {
			return nil, errors.New("stream closed")
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

// saleRecorder records the published sale statuses, an entry per call, and the last pauses.
type saleRecorder struct {
	calls  []map[string]string
	paused map[string]bool
}

func (r *saleRecorder) SetPaused(lines map[string]bool) { r.paused = lines }

func (r *saleRecorder) SetSaleStatuses(statuses map[string]string) {
	r.calls = append(r.calls, statuses)
}

// drain returns the calls since the last drain.
func (r *saleRecorder) drain() []map[string]string {
	calls := r.calls
	r.calls = nil
	return calls
}

func watch(t *testing.T) (*linestate.Lines, *source, func()) {
	t.Helper()
	return watchWith(t, &saleRecorder{})
}

func watchWith(t *testing.T, sales linestate.SaleStatuses) (*linestate.Lines, *source, func()) {
	t.Helper()
	l, src := linestate.New(time.Now, sales), &source{msgs: make(chan *queuev1.WatchLinesResponse), opened: make(chan struct{}, 100)}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- l.Watch(ctx, src, slog.New(slog.DiscardHandler)) }()
	return l, src, func() {
		cancel()
		require.NoError(t, <-done)
	}
}

// send sends a message with the given lines; without lines it is a heartbeat.
func send(src *source, ls ...*queuev1.Line) {
	src.msgs <- &queuev1.WatchLinesResponse{Lines: ls}
	synctest.Wait()
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		require.Equal(t, edge.Unsure, l.Verdict("e", 5), "nothing is known yet")
		send(src, &queuev1.Line{EventId: "e", Epoch: 5})
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
		require.Equal(t, edge.Refused, l.Verdict("e", 4))
		require.Equal(t, edge.Unsure, l.Verdict("e", 6), "queue may be ahead of its own message")
		require.Equal(t, edge.Unsure, l.Verdict("unknown", 5))

		pause := time.Now().Add(5 * time.Second)
		send(src, &queuev1.Line{EventId: "e", Epoch: 7, PauseUntil: pause.UnixMilli()})
		require.Equal(t, edge.Honoured, l.Verdict("e", 4), "the previous epoch is not known")
		send(src, &queuev1.Line{EventId: "e", Epoch: 7, PrevEpoch: 5, PauseUntil: pause.UnixMilli()})
		require.Equal(t, edge.Honoured, l.Verdict("e", 5), "holders are being taken over")
		require.Equal(t, edge.Refused, l.Verdict("e", 4), "older epochs are not taken over")
		time.Sleep(time.Until(pause))
		require.Equal(t, edge.Refused, l.Verdict("e", 5))
		require.Equal(t, edge.Honoured, l.Verdict("e", 7))

		send(src, &queuev1.Line{EventId: "e", Epoch: 5}) // another replica, behind
		require.Equal(t, edge.Honoured, l.Verdict("e", 7))
		require.Equal(t, edge.Refused, l.Verdict("e", 5))
	})
}

func TestSilentStreamIsReopened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		send(src, &queuev1.Line{EventId: "e", Epoch: 5})
		require.Len(t, src.opened, 1)
		time.Sleep(linestate.Stale - time.Second)
		send(src) // a heartbeat
		time.Sleep(linestate.Stale)
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
		require.Equal(t, edge.Refused, l.Verdict("e", 4))
		time.Sleep(time.Millisecond)
		require.Equal(t, edge.Unsure, l.Verdict("e", 5))
		require.Equal(t, edge.Unsure, l.Verdict("e", 4))
		time.Sleep(time.Second)
		require.Len(t, src.opened, 2, "a silent stream is reopened")
		send(src)
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
	})
}

func TestReconnectsBackOff(t *testing.T) {
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

// The stream lists an event without a line only for its sale status. Such an entry must not decide
// whether a token is accepted.
func TestEventWithoutEpochHasNoLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		send(src, &queuev1.Line{EventId: "e", SaleStatus: "SCHEDULED"})
		require.False(t, l.Known("e"))
		for _, epoch := range []int64{0, 5} {
			require.Equal(t, edge.Unsure, l.Verdict("e", epoch), "queue has to be asked")
		}
		send(src, &queuev1.Line{EventId: "e", Epoch: 5, SaleStatus: "ON_SALE"})
		send(src, &queuev1.Line{EventId: "e", SaleStatus: "ON_SALE"}) // another replica, behind
		require.True(t, l.Known("e"))
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
		require.Equal(t, edge.Refused, l.Verdict("e", 4))
	})
}

func snapshot(src *source, ls ...*queuev1.Line) {
	src.msgs <- &queuev1.WatchLinesResponse{Snapshot: true, Lines: ls}
	synctest.Wait()
}

// Lines that no replica has listed for an hour are forgotten: the gateway no longer judges tokens.
func TestEndedLinesAreForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		wait := func(d time.Duration) { // with heartbeats, as from the queue service
			for range d / time.Second {
				time.Sleep(time.Second)
				send(src)
			}
		}
		snapshot(src, &queuev1.Line{EventId: "ended", Epoch: 5}, &queuev1.Line{EventId: "open", Epoch: 5})
		wait(2 * time.Hour)
		require.True(t, l.Known("ended"), "a stream that lasts lists no line again")
		snapshot(src, &queuev1.Line{EventId: "open", Epoch: 4}, &queuev1.Line{EventId: "ended", Epoch: 5})
		wait(50 * time.Minute)
		snapshot(src, &queuev1.Line{EventId: "open", Epoch: 4}) // a replica that is behind
		require.True(t, l.Known("ended"), "replicas may disagree")
		wait(20 * time.Minute)
		snapshot(src, &queuev1.Line{EventId: "open", Epoch: 5})
		require.False(t, l.Known("ended"))
		require.Equal(t, edge.Unsure, l.Verdict("ended", 4))
		require.Equal(t, edge.Refused, l.Verdict("open", 4))
	})
}

// The statuses of a message are published unchanged. A heartbeat publishes nothing.
func TestSaleStatusesArePublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		published := &saleRecorder{}
		_, src, stop := watchWith(t, published)
		defer stop()
		snapshot(src, &queuev1.Line{EventId: "e", Epoch: 5, SaleStatus: "ON_SALE"}, &queuev1.Line{EventId: "f"},
			&queuev1.Line{EventId: "g", SaleStatus: "SCHEDULED"})
		send(src)
		// The status is published although the message has an old epoch of the line.
		send(src, &queuev1.Line{EventId: "e", Epoch: 4, SaleStatus: "PAUSED"})
		require.Equal(t, []map[string]string{{"e": "ON_SALE", "g": "SCHEDULED"}, {"e": "PAUSED"}}, published.drain())
	})
}

// A replica of the queue service that has just started lists its lines before it knows their sale
// statuses, and at first only few lines. The statuses of the last stream stay in the meantime.
// Statuses that no replica repeats are cleared.
func TestSnapshotOfNewReplicaKeepsSaleStatuses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		published := &saleRecorder{}
		_, src, stop := watchWith(t, published)
		defer stop()
		wait := func(d time.Duration) { // with heartbeats, as from the queue service
			for range d / time.Second {
				time.Sleep(time.Second)
				send(src)
			}
		}
		e := &queuev1.Line{EventId: "e", Epoch: 5, SaleStatus: "ON_SALE", Paused: true}
		snapshot(src, e, &queuev1.Line{EventId: "f", SaleStatus: "PAUSED"}, &queuev1.Line{EventId: "g", SaleStatus: "CLOSED"})
		published.drain()
		require.Equal(t, map[string]bool{"e": true, "f": false, "g": false}, published.paused)
		wait(time.Minute)
		require.Empty(t, published.drain(), "statuses do not expire while the stream lives")

		snapshot(src, &queuev1.Line{EventId: "e", Epoch: 5}) // lacks f and g
		wait(3 * time.Second)
		send(src, e)
		snapshot(src, e) // another stream does not restart the wait
		wait(6 * time.Second)
		require.Equal(t, []map[string]string{{"e": "ON_SALE"}, {"e": "ON_SALE"}}, published.drain())
		send(src, &queuev1.Line{EventId: "g", SaleStatus: "CLOSED"})
		wait(time.Second)
		require.Equal(t, []map[string]string{{"g": "CLOSED"}, {"f": ""}}, published.drain())
		wait(time.Minute)
		require.Empty(t, published.drain(), "repeated statuses stay")
	})
}
