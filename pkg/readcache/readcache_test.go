package readcache_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/readcache"
	"urr.guru/pkg/testkit"
)

// A value is read once a second. If it cannot be read, the last one is returned for a minute.
func TestCache(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.UnixMilli(1_800_000_000_000))
	reads, failure := 0, error(nil)
	cache := readcache.New(clock.Now, time.Second, 9, func(context.Context, string) (int, error) {
		if reads++; failure != nil {
			return 0, failure
		}
		return reads, nil
	})
	expect := func(want, wantReads int) {
		t.Helper()
		got, err := cache.Get(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, wantReads, reads)
	}
	expect(1, 1)
	clock.Advance(999 * time.Millisecond)
	expect(1, 1)
	clock.Advance(time.Millisecond)
	expect(2, 2)
	failure = errors.New("away")
	clock.Advance(time.Minute - time.Millisecond)
	expect(2, 3)
	clock.Advance(time.Millisecond)
	_, err := cache.Get(t.Context(), "a")
	require.ErrorIs(t, err, failure)
	failure = errs.ErrPromotionNotFound
	for range 2 { // the error that a value does not exist is cached too
		_, err = cache.Get(t.Context(), "a")
		require.ErrorIs(t, err, errs.ErrPromotionNotFound)
	}
	require.Equal(t, 5, reads)
	failure = nil
	cache.Forget("a")
	expect(6, 6)
}

// If the caller whose read others share gives up, another one reads.
func TestCallerWhoGivesUpFailsNoOther(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cache := readcache.New(time.Now, time.Minute, 9, func(ctx context.Context, key string) (string, error) {
			select {
			case <-ctx.Done():
				return "", ctx.Err()
			case <-time.After(time.Second):
				return key, nil
			}
		})
		gone, cancel := context.WithCancel(t.Context())
		go func() { _, _ = cache.Get(gone, "a") }()
		synctest.Wait()
		time.AfterFunc(time.Millisecond, cancel)
		got, err := cache.Get(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, "a", got)
		cache.Clear()
	})
}

// Only what is in memory and no older than a value that Get returns is there without a read.
func TestFresh(t *testing.T) {
	t.Parallel()
	clock := testkit.NewClock(time.UnixMilli(1_800_000_000_000))
	cache := readcache.New(clock.Now, time.Second, 9, func(context.Context, string) (int, error) { return 7, nil })
	_, ok := cache.Fresh("a")
	require.False(t, ok)
	_, err := cache.Get(t.Context(), "a")
	require.NoError(t, err)
	got, ok := cache.Fresh("a")
	require.True(t, ok)
	require.Equal(t, 7, got)
	clock.Advance(time.Second)
	_, ok = cache.Fresh("a")
	require.False(t, ok)
}
