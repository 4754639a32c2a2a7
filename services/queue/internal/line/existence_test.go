package line

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
)

func TestExistenceCacheExpires(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		says error
		want error
		kept time.Duration
	}{
		"it exists":           {nil, nil, time.Minute},
		"it does not":         {errs.ErrEventNotFound, ErrEventUnknown, time.Second},
		"ticket does not say": {context.DeadlineExceeded, errs.ErrUnavailable, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newClock()
			asked := 0
			r := newEventExistenceCache(c.Now, func(context.Context, string) error {
				asked++
				return tc.says
			})
			for want, step := range []time.Duration{0, tc.kept - 1, 1} {
				c.Advance(step)
				require.ErrorIs(t, r.check(t.Context(), "ev"), tc.want)
				require.Equal(t, max(want, 1), asked)
			}
		})
	}
}

func TestExistenceLookupsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, requireConcurrentLookupsShareOneCall)
}

func requireConcurrentLookupsShareOneCall(t *testing.T) {
	var asked atomic.Int64
	entered, answer := make(chan struct{}), make(chan struct{})
	r := newEventExistenceCache(time.Now, func(ctx context.Context, _ string) error {
		asked.Add(1)
		close(entered)
		<-answer
		return ctx.Err()
	})
	ctx, leave := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	wg.Go(func() { _ = r.check(ctx, "ev") })
	<-entered
	leave() // the first caller stops waiting; the other callers still wait
	var failures [20]error
	for i := range failures {
		wg.Go(func() { failures[i] = r.check(t.Context(), "ev") })
	}
	synctest.Wait()
	close(answer)
	wg.Wait()
	require.NoError(t, errors.Join(failures[:]...))
	require.Equal(t, int64(1), asked.Load())
}

func TestExistenceCacheIsBounded(t *testing.T) {
	t.Parallel()
	c := newClock()
	r := newEventExistenceCache(c.Now, func(context.Context, string) error { return errors.New("down") })
	for i := range existenceCacheSize + 50 {
		require.Error(t, r.check(t.Context(), strconv.Itoa(i)))
	}
	size := func() int {
		r.results.CleanUp()
		return r.results.EstimatedSize()
	}
	require.Equal(t, existenceCacheSize, size())
	c.Advance(time.Second)
	require.Error(t, r.check(t.Context(), "x"))
	require.Equal(t, 1, size(), "what is over makes room")
}
