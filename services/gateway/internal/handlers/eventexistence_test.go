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

	"urr.guru/pkg/clocktest"
	"urr.guru/pkg/errs"

	ticketv1 "urr.guru/proto/gen/urr/ticket/v1"
)

// infos answers GetEventInfo and counts its calls.
type infos struct {
	ticketv1.EventServiceClient
	reads  atomic.Int64
	answer func(ctx context.Context, event string) error
}

func (i *infos) GetEventInfo(ctx context.Context, in *ticketv1.GetEventInfoRequest, _ ...grpc.CallOption) (*ticketv1.EventInfo, error) {
	i.reads.Add(1)
	return &ticketv1.EventInfo{EventId: in.GetEventId()}, i.answer(ctx, in.GetEventId())
}

// steady is the cache's clock: it moves when the test says so, and never ticks.
type steady struct{ *clocktest.Clock }

func (s steady) NowNano() int64                      { return s.Now().UnixNano() }
func (s steady) Tick(time.Duration) <-chan time.Time { return nil }

func existences(t *testing.T, answer func(ctx context.Context, event string) error) (*EventExistence, *infos, *clocktest.Clock) {
	t.Helper()
	source := &infos{answer: answer}
	clock := clocktest.New(time.Date(2026, time.March, 1, 10, 0, 0, 0, time.UTC))
	e, err := newEventExistence(source, steady{clock})
	require.NoError(t, err)
	return e, source, clock
}

// TestAMillionReloadsCostOneRead: what exists is asked once in ten minutes, what does not once in
// five seconds.
func TestAMillionReloadsCostOneRead(t *testing.T) {
	t.Parallel()
	e, source, clock := existences(t, func(_ context.Context, event string) error {
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
	clock.Advance(absentLife)
	require.True(t, e.Absent(t.Context(), "typo"))
	require.False(t, e.Absent(t.Context(), "show"))
	require.Equal(t, int64(3), source.reads.Load())
	clock.Advance(existsLife)
	require.False(t, e.Absent(t.Context(), "show"))
	require.Equal(t, int64(4), source.reads.Load())
}

// TestAnEventThatIsCreatedAppears: at once where its operator put it, after five seconds elsewhere.
func TestAnEventThatIsCreatedAppears(t *testing.T) {
	t.Parallel()
	var created atomic.Bool
	e, _, clock := existences(t, func(context.Context, string) error {
		if created.Load() {
			return nil
		}
		return errs.ErrEventNotFound
	})
	require.True(t, e.Absent(t.Context(), "show"))
	created.Store(true)
	clock.Advance(absentLife)
	require.False(t, e.Absent(t.Context(), "show"))

	created.Store(false)
	e.Forget("show")
	require.True(t, e.Absent(t.Context(), "show"))
	created.Store(true)
	e.Forget("show")
	require.False(t, e.Absent(t.Context(), "show"))
}

// TestWithoutTicketNothingIsAbsent: an error is no proof; ticket is asked again after a second.
func TestWithoutTicketNothingIsAbsent(t *testing.T) {
	t.Parallel()
	answer := errs.ErrUnavailable
	e, source, clock := existences(t, func(context.Context, string) error { return answer })
	for range 100 {
		require.False(t, e.Absent(t.Context(), "show"))
	}
	require.Equal(t, int64(1), source.reads.Load())
	answer = errs.ErrEventNotFound
	clock.Advance(unsureLife)
	require.True(t, e.Absent(t.Context(), "show"))
}

// TestMadeUpIDsDelayNobody: while ticket hangs, eight reads are under way, and whoever comes beside
// them is answered at once.
func TestMadeUpIDsDelayNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e, source, _ := existences(t, func(ctx context.Context, _ string) error {
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
		require.Zero(t, time.Since(start), "nobody waits beside the reads")
		waiting.Wait()
		require.Equal(t, existenceTimeout, time.Since(start), "nobody waits longer than that")
		require.Equal(t, int64(existenceReads), source.reads.Load())
	})
}

// TestTheFirstVisitorMayLeave: others who wait for the same answer get it.
func TestTheFirstVisitorMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answered := make(chan struct{})
		e, source, _ := existences(t, func(ctx context.Context, _ string) error {
			select {
			case <-answered:
				return errs.ErrEventNotFound
			case <-ctx.Done():
				return ctx.Err()
			}
		})
		first, leave := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		waiting.Go(func() { e.Absent(first, "typo") })
		synctest.Wait()
		waiting.Go(func() { require.True(t, e.Absent(t.Context(), "typo")) })
		synctest.Wait()
		leave()
		synctest.Wait()
		close(answered)
		waiting.Wait()
		require.Equal(t, int64(1), source.reads.Load())
	})
}
