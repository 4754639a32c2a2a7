package event

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// outcome is the result of a read.
type outcome[V any] struct {
	value V
	err   error
}

// getAsync reads a key in the background.
func getAsync[V any](ctx context.Context, c *cache[string, V], key string) <-chan outcome[V] {
	read := make(chan outcome[V], 1)
	go func() {
		value, err := c.get(ctx, key)
		read <- outcome[V]{value, err}
	}()
	return read
}

func TestCacheLoadsOncePerKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var loads atomic.Int64
		c := newCache(100*time.Millisecond, 10, func(_ context.Context, key string) (int64, error) {
			time.Sleep(10 * time.Millisecond)
			return loads.Add(1), nil
		})
		read := func(want int64) {
			t.Helper()
			var readers []<-chan outcome[int64]
			for range 50 {
				readers = append(readers, getAsync(t.Context(), c, "k"))
			}
			for _, r := range readers {
				require.Equal(t, outcome[int64]{value: want}, <-r)
			}
		}
		read(1)
		read(1)
		time.Sleep(90 * time.Millisecond) // 100 ms since the load began: still served
		read(1)
		time.Sleep(time.Millisecond)
		read(2)
		c.invalidate("k")
		read(3)
		c.invalidateAll()
		read(4)
	})
}

// A reader of several keys loads only those that are not cached and that nobody is loading.
func TestCacheLoadsMissingKeysTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		loads := make(chan []string, 10)
		c := newBatchCache(time.Second, 10, func(_ context.Context, keys []string) (map[string]string, error) {
			loads <- keys
			time.Sleep(100 * time.Millisecond)
			if keys[0] == "bad" {
				return nil, errors.New("no")
			}
			found := make(map[string]string)
			for _, k := range keys[1:] { // the first of them does not exist
				found[k] = k + "!"
			}
			return found, nil
		})
		began := time.Now()
		other := make(chan outcome[[]timedValue[string]], 1)
		go func() {
			values, err := c.getAll(t.Context(), []string{"a", "b", "b"})
			other <- outcome[[]timedValue[string]]{values, err}
		}()
		synctest.Wait()
		time.Sleep(time.Millisecond)
		values, err := c.getAll(t.Context(), []string{"c", "b", "d", "a"})
		require.NoError(t, err)
		later := began.Add(time.Millisecond)
		require.Equal(t, []timedValue[string]{{"", later}, {"b!", began}, {"d!", later}, {"", began}}, values)
		require.Equal(t, outcome[[]timedValue[string]]{value: []timedValue[string]{{"", began}, {"b!", began}, {"b!", began}}}, <-other)
		require.Equal(t, [][]string{{"a", "b"}, {"c", "d"}}, [][]string{<-loads, <-loads})
		_, err = c.getAll(t.Context(), []string{"bad", "e"})
		require.Error(t, err)
		_, err = c.getAll(t.Context(), []string{"a", "b", "c", "d", "e"})
		require.NoError(t, err)
		require.Equal(t, [][]string{{"bad", "e"}, {"e"}}, [][]string{<-loads, <-loads}, "what does not exist is known too, for as long")
	})
}

func TestCacheKeepsNoErrors(t *testing.T) {
	t.Parallel()
	fail := errors.New("no")
	c := newCache(time.Hour, 10, func(context.Context, string) (int, error) {
		if fail != nil {
			return 0, fail
		}
		return 7, nil
	})
	_, err := c.get(t.Context(), "k")
	require.ErrorIs(t, err, fail)
	require.Empty(t, c.entries)
	fail = nil
	got, err := c.get(t.Context(), "k")
	require.NoError(t, err)
	require.Equal(t, 7, got)
}

func TestCacheLoadOutlivesItsFirstReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Second, 10, func(ctx context.Context, _ string) (int, error) {
			select {
			case <-time.After(time.Second):
				return 1, nil
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		})
		first, leave := context.WithCancel(t.Context())
		loader := getAsync(first, c, "k")
		synctest.Wait()
		second, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		cancelled, waiting := getAsync(second, c, "k"), getAsync(t.Context(), c, "k")
		synctest.Wait()
		leave()
		require.ErrorIs(t, (<-cancelled).err, context.DeadlineExceeded)
		require.Equal(t, outcome[int]{value: 1}, <-waiting)
		require.Equal(t, outcome[int]{value: 1}, <-loader, "its load is everybody's")
	})
}

func TestCacheEvictsExpiredEntries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCache(time.Second, 3, func(_ context.Context, k int) (int, error) { return k, nil })
		for k := range 3 {
			_, err := c.get(t.Context(), k)
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Second)
		_, err := c.get(t.Context(), 3)
		require.NoError(t, err)
		require.Len(t, c.entries, 1)
	})
}

func TestCacheSurvivesAPanic(t *testing.T) {
	t.Parallel()
	c := newCache(time.Second, 3, func(context.Context, int) (int, error) { panic("boom") })
	for range 2 {
		require.Panics(t, func() { _, _ = c.get(t.Context(), 1) })
	}
	require.Empty(t, c.entries, "nobody waits for it")
}
