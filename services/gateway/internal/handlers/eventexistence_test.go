package handlers

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// fakeEvents serves GetEventInfo and counts its calls.
type fakeEvents struct {
	ticketv1.EventServiceClient
	reads  atomic.Int64
	answer func(ctx context.Context, event string) error
}

func (i *fakeEvents) GetEventInfo(ctx context.Context, in *ticketv1.GetEventInfoRequest, _ ...grpc.CallOption) (*ticketv1.EventInfo, error) {
	i.reads.Add(1)
	return &ticketv1.EventInfo{EventId: in.GetEventId()}, i.answer(ctx, in.GetEventId())
}

// manualClock is the clock of the cache. It stands still until the test advances it.
type manualClock struct{ *testkit.Clock }

func (s manualClock) NowNano() int64                      { return s.Now().UnixNano() }
func (s manualClock) Tick(time.Duration) <-chan time.Time { return nil }

func newExistence(t *testing.T, answer func(ctx context.Context, event string) error) (*EventExistence, *fakeEvents, *testkit.Clock) {
	t.Helper()
	source := &fakeEvents{answer: answer}
	clock := testkit.NewClock(time.Date(2026, time.March, 1, 10, 0, 0, 0, time.UTC))
	e, err := newEventExistence(source, manualClock{clock})
	require.NoError(t, err)
	return e, source, clock
}

// An existing event is read once in ten minutes, one that does not exist once in five seconds.
func TestExistenceIsCached(t *testing.T) {
	t.Parallel()
	e, source, clock := newExistence(t, func(_ context.Context, event string) error {
		if event == "typo" {
			return errs.ErrEventNotFound
		}
		return nil
	})
	for range 1000 {
		require.False(t, e.Absent(t.Context(), "show"))
		require.True(t, e.Absent(t.Context(), "typo"))
	}
	require.Equal(t, int64(2), source.reads.Load())
	clock.Advance(absentTTL)
	require.True(t, e.Absent(t.Context(), "typo"))
	require.False(t, e.Absent(t.Context(), "show"))
	require.Equal(t, int64(3), source.reads.Load())
	clock.Advance(existsTTL)
	require.False(t, e.Absent(t.Context(), "show"))
	require.Equal(t, int64(4), source.reads.Load())
}

// A created event appears at once on the gateway that created it, and after five seconds on the
// others.
func TestCreatedEventAppears(t *testing.T) {
	t.Parallel()
	var created atomic.Bool
	e, _, clock := newExistence(t, func(context.Context, string) error {
		if created.Load() {
			return nil
		}
		return errs.ErrEventNotFound
	})
	require.True(t, e.Absent(t.Context(), "show"))
	created.Store(true)
	clock.Advance(absentTTL)
	require.False(t, e.Absent(t.Context(), "show"))

	created.Store(false)
	e.Forget("show")
	require.True(t, e.Absent(t.Context(), "show"))
	created.Store(true)
	e.Forget("show")
	require.False(t, e.Absent(t.Context(), "show"))
}

// An error does not mean absence. The ticket service is called again after a second.
func TestErrorIsNotAbsence(t *testing.T) {
	t.Parallel()
	answer := errs.ErrUnavailable
	e, source, clock := newExistence(t, func(context.Context, string) error { return answer })
	for range 100 {
		require.False(t, e.Absent(t.Context(), "show"))
	}
	require.Equal(t, int64(1), source.reads.Load())
	answer = errs.ErrEventNotFound
	clock.Advance(unknownTTL)
	require.True(t, e.Absent(t.Context(), "show"))
}

// While the ticket service hangs, eight reads are in flight; further requests return at once.
func TestUnknownIDsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, source, _ := newExistence(t, func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return ctx.Err()
		})
		start := time.Now()
		var waiting sync.WaitGroup
		for i := range existenceReads {
			waiting.Go(func() { require.False(t, e.Absent(t.Context(), fmt.Sprint("made-up-", i))) })
		}
		synctest.Wait()
		for i := range 1000 {
			require.False(t, e.Absent(t.Context(), fmt.Sprint("more-", i)))
		}
		require.Zero(t, time.Since(start), "further requests do not wait")
		waiting.Wait()
		require.Equal(t, existenceTimeout, time.Since(start), "a read ends at its timeout")
		require.Equal(t, int64(existenceReads), source.reads.Load())
	})
}

// If the request that began a read is cancelled, the read goes on for other requests.
func TestCancelledRequestKeepsSharedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		e, source, _ := newExistence(t, func(ctx context.Context, _ string) error {
			select {
			case <-answered:
				return errs.ErrEventNotFound
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		first, cancelFirst := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { e.Absent(first, "typo") })
		synctest.Wait()
		waiting.Go(func() { require.True(t, e.Absent(t.Context(), "typo")) })
		synctest.Wait()
		cancelFirst()
		synctest.Wait()
		close(answered)
		waiting.Wait()
		require.Equal(t, int64(1), source.reads.Load())
	})
}
