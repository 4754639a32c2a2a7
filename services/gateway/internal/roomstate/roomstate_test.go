package roomstate_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/services/gateway/internal/roomstate"

	vwrv1 "urr.guru/proto/gen/urr/vwr/v1"
)

func counter(active bool, round, serving, issued int64) *vwrv1.Counter {
	return &vwrv1.Counter{EventId: "e", Active: active, Round: round, Serving: serving, Issued: issued}
}

func TestCountersNeverGoBackWithinARound(t *testing.T) {
	t.Parallel()
	r := roomstate.New()
	require.Zero(t, r.ActiveRound("e"))
	for _, step := range []struct {
		report          *vwrv1.Counter
		round           int64
		serving, issued int64
	}{
		{counter(true, 10, 5, 20), 10, 5, 20},
		{counter(true, 10, 3, 30), 10, 5, 30}, // behind in one counter, ahead in the other
		{counter(true, 9, 100, 100), 10, 5, 30},
		{counter(false, 10, 6, 30), 0, 6, 30},
		{counter(true, 10, 7, 30), 0, 7, 30}, // deactivated for the rest of the round
		{counter(true, 11, 0, 2), 11, 0, 2},  // a new round starts at 0
		{counter(false, 10, 9, 9), 11, 0, 2},
	} {
		r.ApplyCounter(step.report)
		require.Equal(t, step.round, r.ActiveRound("e"), "%v", step.report)
		require.Equal(t, step.serving, r.Get("e").Serving, "%v", step.report)
		require.Equal(t, step.issued, r.Get("e").Issued, "%v", step.report)
	}
	require.Zero(t, r.ActiveRound("another"))
}

func TestServingResponse(t *testing.T) {
	t.Parallel()
	r := roomstate.New()
	require.JSONEq(t, `{"servingCounter":0,"isActive":false}`, string(r.Get("e").ServingJSON))
	seen := map[string]bool{r.Get("e").ETag[0]: true}
	for _, c := range []*vwrv1.Counter{counter(true, 10, 5, 20), counter(true, 10, 6, 20), counter(false, 10, 6, 20), counter(true, 11, 0, 0)} {
		r.ApplyCounter(c)
		tag := r.Get("e").ETag[0]
		require.False(t, seen[tag], tag)
		seen[tag] = true
	}
	before := r.Get("e")
	r.ApplyCounter(counter(true, 11, 0, 0))
	require.Same(t, before, r.Get("e"), "no change, no new response")
}

// source is a fake vwr service whose streams the test controls.
type source struct {
	mu      sync.Mutex
	opened  int
	streams chan *stream
	fetched [][]string
	counter *vwrv1.Counter
}

type stream struct {
	grpc.ClientStream

	ctx  context.Context //nolint:containedctx // the stream's context
	msgs chan *vwrv1.WatchCountersResponse
	fail chan error
}

func (s *stream) Recv() (*vwrv1.WatchCountersResponse, error) {
	select {
	case m := <-s.msgs:
		return m, nil
	case err := <-s.fail:
		return nil, err
	case <-s.ctx.Done():
		return nil, s.ctx.Err()
	}
}

func (s *source) WatchCounters(ctx context.Context, _ *vwrv1.WatchCountersRequest, _ ...grpc.CallOption) (grpc.ServerStreamingClient[vwrv1.WatchCountersResponse], error) {
	s.mu.Lock()
	s.opened++
	s.mu.Unlock()
	st := &stream{ctx: ctx, msgs: make(chan *vwrv1.WatchCountersResponse), fail: make(chan error)}
	select {
	case s.streams <- st:
		return st, nil
	default:
		return nil, errors.New("vwr is down")
	}
}

func (s *source) GetCounters(_ context.Context, in *vwrv1.GetCountersRequest, _ ...grpc.CallOption) (*vwrv1.GetCountersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fetched = append(s.fetched, in.GetEventIds())
	out := &vwrv1.GetCountersResponse{}
	if s.counter != nil && slices.Contains(in.GetEventIds(), s.counter.GetEventId()) {
		out.Counters = append(out.Counters, s.counter)
	}
	return out, nil
}

func (s *source) fetches() [][]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.fetched)
}

// startWatch runs Watch over src within a synctest bubble until the test ends.
func startWatch(t *testing.T, src roomstate.Source) *roomstate.Rooms {
	t.Helper()
	r := roomstate.New()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Watch(ctx, src, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-done)
	})
	return r
}

func snapshot(counters ...*vwrv1.Counter) *vwrv1.WatchCountersResponse {
	return &vwrv1.WatchCountersResponse{Snapshot: true, Counters: counters}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r, src := roomstate.New(), &source{streams: make(chan *stream, 1), counter: counter(true, 10, 80, 100)}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Watch(ctx, src, slog.New(slog.DiscardHandler)) }()
		first := <-src.streams
		require.False(t, r.Ready())
		first.msgs <- &vwrv1.WatchCountersResponse{Counters: []*vwrv1.Counter{counter(true, 10, 5, 100)}}
		synctest.Wait()
		require.False(t, r.Ready(), "only a snapshot lists every room")
		first.msgs <- &vwrv1.WatchCountersResponse{Snapshot: true}
		synctest.Wait()
		require.True(t, r.Ready())
		require.True(t, r.Connected())

		// The stream breaks. The known states stay, and requested states are fetched once a second, in
		// one call.
		src.streams <- nil // full: new streams fail
		first.fail <- io.EOF
		synctest.Wait()
		require.True(t, r.Ready())
		require.False(t, r.Connected())
		require.Equal(t, int64(10), r.ActiveRound("e"))
		for range 50 {
			for range 1000 {
				r.Get("e")
			}
			time.Sleep(100 * time.Millisecond)
		}
		src.mu.Lock()
		require.InDelta(t, 5, len(src.fetched), 1)
		require.Equal(t, []string{"e"}, src.fetched[0])
		require.Less(t, src.opened, 12, "attempts back off")
		src.mu.Unlock()
		require.Equal(t, int64(80), r.Get("e").Serving)

		// The stream is reopened.
		<-src.streams
		second := <-src.streams
		second.msgs <- &vwrv1.WatchCountersResponse{Snapshot: true, Counters: []*vwrv1.Counter{counter(true, 10, 90, 100)}}
		synctest.Wait()
		require.True(t, r.Connected())
		require.Equal(t, int64(90), r.Get("e").Serving)
		cancel()
		require.NoError(t, <-done)
	})
}

func TestDisabled(t *testing.T) {
	t.Parallel()
	r := roomstate.Disabled()
	require.True(t, r.Ready())
	require.Zero(t, r.ActiveRound("e"))
}
