package handlers

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/testkit"
)

// occupy starts n requests, which are in progress until the returned function is called.
func occupy(t *testing.T, b *backlog, n int) (end func()) {
	t.Helper()
	release, entered := make(chan struct{}), make(chan struct{})
	ended := make(chan error)
	for range n {
		go func() {
			ended <- b.run(func() error {
				entered <- struct{}{}
				<-release
				return nil
			})
		}()
		<-entered
	}
	return func() {
		close(release)
		for range n {
			require.NoError(t, <-ended)
		}
	}
}

func TestBacklogRefusesAboveItsBound(t *testing.T) {
	t.Parallel()
	b := newBacklog(testkit.NewClock(time.Unix(1_700_000_000, 0)).Now)
	end := occupy(t, b, backlogIdleMin-1)
	require.NoError(t, b.refusal())
	last := occupy(t, b, 1)
	refused := errs.From(b.refusal())
	require.ErrorIs(t, refused, errs.ErrOverloaded)
	require.Equal(t, backlogRetry, refused.RetryAfter)
	require.ErrorIs(t, b.run(func() error { return errors.New("must not run") }), errs.ErrOverloaded)
	last()
	require.NoError(t, b.refusal(), "a place is free again")
	require.NoError(t, b.run(func() error { return nil }))
	end()
}

func TestBacklogFollowsThePace(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Unix(1_700_000_000, 0))
	b := newBacklog(clock.Now)
	runASecond := func(n int, err error) {
		for range 4 {
			for range n/4 - 1 {
				_ = b.run(func() error { return err })
			}
			clock.Advance(backlogWindow)
			_ = b.run(func() error { return err })
		}
	}
	for range 5 {
		runASecond(4000, nil)
	}
	require.InDelta(t, 4000, b.limit.Load(), 40, "what is completed in a second")
	for range 5 {
		runASecond(4000, errs.ErrSeatTaken)
	}
	require.InDelta(t, 4000, b.limit.Load(), 40, "a refusal for good is an answer too")
	for _, failed := range []error{errs.ErrUnavailable, errs.ErrInternal, errors.New("a mistake")} {
		runASecond(4000, failed)
		require.InDelta(t, 4000, b.limit.Load(), 40, "failures say nothing about the pace")
	}
	runASecond(800, nil)
	require.Less(t, b.limit.Load(), int64(1200))
	clock.Advance(time.Hour)
	runASecond(100, nil)
	require.EqualValues(t, backlogIdleMin, b.limit.Load())
}

// completeAt completes requests at a rate, over a number of windows.
func completeAt(b *backlog, clock *testkit.Clock, perSecond, windows int) {
	for range windows {
		for range perSecond/4 - 1 {
			b.countCompleted(nil)
		}
		clock.Advance(backlogWindow)
		b.countCompleted(nil)
	}
}

// A slow service gets a low limit as soon as its rate is known.
func TestBacklogOfASlowServiceIsShort(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Unix(1_700_000_000, 0))
	b := newBacklog(clock.Now)
	completeAt(b, clock, 100, 1)
	require.EqualValues(t, backlogIdleMin, b.limit.Load(), "nobody asks for more")
	end := occupy(t, b, backlogIdleMin)
	require.Error(t, b.refusal())
	completeAt(b, clock, 100, 1)
	require.EqualValues(t, 100, b.limit.Load())
	completeAt(b, clock, 8, 8)
	require.EqualValues(t, backlogMin, b.limit.Load())
	end()
	completeAt(b, clock, 100, 4)
	require.EqualValues(t, backlogIdleMin, b.limit.Load(), "nobody asks for more")
}

// A pause of the service or of the requests does not lower the limit.
func TestPauseIsNoSlowPace(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.Unix(1_700_000_000, 0))
	b := newBacklog(clock.Now)
	completeAt(b, clock, 4000, 4)
	require.EqualValues(t, 4000, b.limit.Load())
	clock.Advance(600 * time.Millisecond)
	completeAt(b, clock, 4000, 1)
	require.InDelta(t, 4000, b.limit.Load(), 10)
	clock.Advance(backlogMaxGap + time.Millisecond)
	b.countCompleted(nil)
	require.EqualValues(t, backlogIdleMin, b.limit.Load())
	completeAt(b, clock, 4000, 1)
	require.EqualValues(t, 4000, b.limit.Load(), "at once")
}
