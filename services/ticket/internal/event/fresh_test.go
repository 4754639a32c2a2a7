package event

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFreshLoadsOnceForEverybody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		f := newFresh(100*time.Millisecond, 10, func(_ context.Context, key string) (int64, error) {
			time.Sleep(10 * time.Millisecond)
			return loads.Add(1), nil
		})
		read := func(want int64) {
			t.Helper()
			var wg sync.WaitGroup
			for range 50 {
				wg.Go(func() {
					got, err := f.get(t.Context(), "k")
					assert.NoError(t, err)
					assert.Equal(t, want, got)
				})
			}
			wg.Wait()
		}
		read(1)
		read(1)
		time.Sleep(90 * time.Millisecond) // 100 ms since the load began: not older than that
		read(1)
		time.Sleep(time.Millisecond)
		read(2)
		f.forget("k")
		read(3)
		f.forgetAll()
		read(4)
	})
}

func TestFreshKeepsNoErrors(t *testing.T) {
	t.Parallel()
	fail := errors.New("no")
	f := newFresh(time.Hour, 10, func(context.Context, string) (int, error) {
		if fail != nil {
			return 0, fail
		}
		return 7, nil
	})
	_, err := f.get(t.Context(), "k")
	require.ErrorIs(t, err, fail)
	require.Empty(t, f.entries)
	fail = nil
	got, err := f.get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, 7, got)
}

func TestFreshReadersMayLeave(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFresh(time.Second, 10, func(ctx context.Context, _ string) (int, error) {
			select {
			case <-time.After(time.Second):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		first, leave := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			got, err := f.get(first, "k")
			assert.NoError(t, err, "its load is everybody's")
			assert.Equal(t, 1, got)
		})
		synctest.Wait()
		second, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		wg.Go(func() {
			_, err := f.get(second, "k")
			assert.ErrorIs(t, err, context.DeadlineExceeded)
		})
		wg.Go(func() {
			got, err := f.get(t.Context(), "k")
			assert.NoError(t, err)
			assert.Equal(t, 1, got)
		})
		synctest.Wait()
		leave()
		wg.Wait()
	})
}

func TestFreshForgetsWhatIsOld(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFresh(time.Second, 3, func(_ context.Context, k int) (int, error) { return k, nil })
		for k := range 3 {
			_, err := f.get(t.Context(), k)
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Second)
		_, err := f.get(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, f.entries, 1)
	})
}

func TestFreshSurvivesAPanic(t *testing.T) {
	t.Parallel()
	f := newFresh(time.Second, 3, func(context.Context, int) (int, error) { panic("boom") })
	for range 2 {
		require.Panics(t, func() { _, _ = f.get(t.Context(), 1) })
	}
	require.Empty(t, f.entries, "nobody waits for it")
}
