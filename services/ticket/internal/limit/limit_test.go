package limit_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/services/ticket/internal/limit"
)

// occupied returns a Limiter of one call at a time, which is running one until release is closed.
func occupied(t *testing.T, waiting int) (l *limit.Limiter, release chan struct{}) {
	t.Helper()
	l, release = limit.New(1, waiting), make(chan struct{})
	go func() { _ = l.Do(t.Context(), func() error { <-release; return nil }) }()
	synctest.Wait()
	return l, release
}

func TestDoRunsInTheOrderOfArrival(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, release := occupied(t, 3)
		var order []int
		for i := range 3 {
			go func() { _ = l.Do(t.Context(), func() error { order = append(order, i); return nil }) }()
			synctest.Wait()
		}
		require.ErrorIs(t, l.Do(t.Context(), nil), errs.ErrOverloaded, "three wait already")
		require.Empty(t, order)
		close(release)
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2}, order)
	})
}

func TestDoReturnsTheErrorOfTheFunction(t *testing.T) {
	t.Parallel()
	failure := errors.New("failure")
	require.ErrorIs(t, limit.New(1, 0).Do(t.Context(), func() error { return failure }), failure)
}

func TestDoFreesItsPlaceAfterAPanic(t *testing.T) {
	t.Parallel()
	l := limit.New(1, 0)
	require.Panics(t, func() { _ = l.Do(t.Context(), func() error { panic("bug") }) })
	require.NoError(t, l.Do(t.Context(), func() error { return nil }))
}

func TestACancelledCallDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, release := occupied(t, 1)
		ctx, cancel := context.WithCancel(t.Context())
		result := make(chan error, 1)
		go func() { result <- l.Do(ctx, func() error { panic("it runs") }) }()
		synctest.Wait()
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
		close(release)
	})
}

func TestCloseWaitsForAcceptedCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, release := occupied(t, 1)
		waiting, closed := make(chan error, 1), make(chan error, 1)
		go func() { waiting <- l.Do(t.Context(), func() error { return nil }) }()
		synctest.Wait()
		go func() { closed <- l.Close(context.WithoutCancel(t.Context())) }()
		synctest.Wait()
		require.ErrorIs(t, l.Do(t.Context(), nil), errs.ErrUnavailable)
		require.Empty(t, closed)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.Close(ctx), context.Canceled, "one is still running")
		close(release)
		require.NoError(t, <-waiting)
		require.NoError(t, <-closed)
		require.NoError(t, l.Close(t.Context()))
	})
}
