package request_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/services/ingest/internal/request"
)

// Values are loaded once. When there are too many, the least recently used ones are dropped.
func TestKept(t *testing.T) {
	t.Parallel()
	loads := map[string]int{}
	cache := request.NewSizedCache(2_500, func(_ context.Context, id string) (string, error) {
		loads[id]++
		if id == "bad" {
			return "", errors.New("away")
		}
		return id, nil
	}, func(string) int64 { return 1_000 })
	get := func(id string) {
		t.Helper()
		got, err := cache.Get(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, id, got)
	}
	for range 2 {
		get("a")
		get("b")
		_, err := cache.Get(t.Context(), "bad")
		require.Error(t, err)
	}
	require.Equal(t, map[string]int{"a": 1, "b": 1, "bad": 2}, loads)
	get("a")
	get("c") // drops b
	get("a")
	get("b") // drops c
	get("a")
	require.Equal(t, map[string]int{"a": 1, "b": 2, "c": 1, "bad": 2}, loads)
}

func TestKeptLoadsOnce(t *testing.T) {
	t.Parallel()
	var loads atomic.Int64
	cache := request.NewSizedCache(1_000, func(context.Context, string) (int64, error) { return loads.Add(1), nil }, func(int64) int64 { return 8 })
	var work sync.WaitGroup
	for range 20 {
		work.Go(func() {
			if got, err := cache.Get(context.Background(), "a"); got != 1 || err != nil {
				t.Errorf("%d %v", got, err)
			}
		})
	}
	work.Wait()
	require.Equal(t, int64(1), loads.Load())
}
