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

// said is what was passed on of the sales, one entry a call.
type said struct{ sales []map[string]string }

func (s *said) Sales(sales map[string]string) { s.sales = append(s.sales, sales) }

// next are the calls since the last one.
func (s *said) next() []map[string]string {
	calls := s.sales
	s.sales = nil
	return calls
}

func watch(t *testing.T) (*linestate.Lines, *source, func()) {
	t.Helper()
	return watchFor(t, &said{})
}

func watchFor(t *testing.T, sales linestate.Sales) (*linestate.Lines, *source, func()) {
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
		require.Equal(t, edge.Honoured, l.Verdict("e", 4), "a release of queue that does not name the last epoch")
		beat(src, &queuev1.Line{EventId: "e", Epoch: 7, PrevEpoch: 5, PauseUntil: pause.UnixMilli()})
		require.Equal(t, edge.Honoured, l.Verdict("e", 5), "holders are being taken over")
		require.Equal(t, edge.Refused, l.Verdict("e", 4), "those of the epoch before have been, or never will be")
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
		time.Sleep(linestate.Stale - time.Second)
		beat(src) // a beat says: nothing has changed
		time.Sleep(linestate.Stale)
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

// An event that has no line yet is named for its sale's sake. It is no line to judge tokens by.
func TestNoEpochIsNoLine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, src, stop := watch(t)
		defer stop()
		beat(src, &queuev1.Line{EventId: "e", SaleStatus: "SCHEDULED"})
		require.False(t, l.Known("e"))
		for _, epoch := range []int64{0, 5} {
			require.Equal(t, edge.Unsure, l.Verdict("e", epoch), "queue has to be asked")
		}
		beat(src, &queuev1.Line{EventId: "e", Epoch: 5, SaleStatus: "ON_SALE"})
		beat(src, &queuev1.Line{EventId: "e", SaleStatus: "ON_SALE"}) // another replica, behind
		require.True(t, l.Known("e"))
		require.Equal(t, edge.Honoured, l.Verdict("e", 5))
		require.Equal(t, edge.Refused, l.Verdict("e", 4))
	})
}

func snapshot(src *source, ls ...*queuev1.Line) {
	src.msgs <- &queuev1.WatchLinesResponse{Snapshot: true, Lines: ls}
	synctest.Wait()
}

// The words of a message are passed on as they came, and a beat says nothing.
func TestSalesArePassedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heard := &said{}
		_, src, stop := watchFor(t, heard)
		defer stop()
		snapshot(src, &queuev1.Line{EventId: "e", Epoch: 5, SaleStatus: "ON_SALE"}, &queuev1.Line{EventId: "f"},
			&queuev1.Line{EventId: "g", SaleStatus: "SCHEDULED"})
		beat(src)
		// The epoch is old, the word is not.
		beat(src, &queuev1.Line{EventId: "e", Epoch: 4, SaleStatus: "PAUSED"})
		require.Equal(t, []map[string]string{{"e": "ON_SALE", "g": "SCHEDULED"}, {"e": "PAUSED"}}, heard.next())
	})
}

// A replica of queue that has just started names its lines before it knows their sales, and names
// few of them at first. The words of the last stream stay meanwhile; those that nobody repeats go.
func TestAFreshReplicaWipesNoSales(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		heard := &said{}
		_, src, stop := watchFor(t, heard)
		defer stop()
		wait := func(d time.Duration) { // with beats, as queue sends them
			for range d / time.Second {
				time.Sleep(time.Second)
				beat(src)
			}
		}
		e := &queuev1.Line{EventId: "e", Epoch: 5, SaleStatus: "ON_SALE"}
		snapshot(src, e, &queuev1.Line{EventId: "f", SaleStatus: "PAUSED"}, &queuev1.Line{EventId: "g", SaleStatus: "CLOSED"})
		heard.next()
		wait(time.Minute)
		require.Empty(t, heard.next(), "a stream that lives says what changes")

		snapshot(src, &queuev1.Line{EventId: "e", Epoch: 5}) // of g and f nothing
		wait(3 * time.Second)
		beat(src, e)
		snapshot(src, e) // another stream does not begin the wait anew
		wait(6 * time.Second)
		require.Equal(t, []map[string]string{{"e": "ON_SALE"}, {"e": "ON_SALE"}}, heard.next())
		beat(src, &queuev1.Line{EventId: "g", SaleStatus: "CLOSED"})
		wait(time.Second)
		require.Equal(t, []map[string]string{{"g": "CLOSED"}, {"f": ""}}, heard.next())
		wait(time.Minute)
		require.Empty(t, heard.next(), "those that were repeated stay")
	})
}
