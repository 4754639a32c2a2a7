package batch_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
)

// double returns a batch function that doubles each item. A batch of the key "slow" waits until the
// gate opens or the batch times out.
func double(gate chan struct{}) func(context.Context, string, []int) ([]batch.Result[int], error) {
	return func(ctx context.Context, key string, in []int) ([]batch.Result[int], error) {
		if key == "slow" {
			select {
			case <-gate:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
		}
		out := make([]batch.Result[int], len(in))
		for i, v := range in {
			out[i].Value = 2 * v
		}
		return out, nil
	}
}

func TestSlowKeyDoesNotDelayOtherKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		g := batch.NewGroups(batch.Config{Inflight: 1, Queue: 2, Timeout: time.Second}, 10, double(gate))
		slow := make(chan error, 4)
		for range 4 { // one runs, two wait, one is refused
			go func() {
				_, err := g.Do(t.Context(), "slow", 1)
				slow <- err
			}()
		}
		synctest.Wait()
		require.ErrorIs(t, <-slow, errs.ErrOverloaded)

		start := time.Now()
		got, err := g.Do(t.Context(), "fast", 21)
		require.NoError(t, err)
		require.Empty(t, cmp.Diff(42, got))
		require.Zero(t, time.Since(start))

		require.ErrorIs(t, <-slow, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		close(gate)
		require.NoError(t, <-slow)
		require.NoError(t, <-slow)
		require.NoError(t, g.Close(t.Context()))
	})
}

func TestKeysInUseAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		g := batch.NewGroups(batch.Config{Timeout: time.Minute}, 1, double(gate))
		for _, key := range []string{"a", "b", "c"} {
			_, err := g.Do(t.Context(), key, 1)
			require.NoError(t, err, "the keys before are idle")
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := g.Do(ctx, "slow", 1)
			done <- err
		}()
		synctest.Wait()
		_, err := g.Do(t.Context(), "a", 1)
		require.ErrorIs(t, err, errs.ErrOverloaded)
		cancel()
		require.ErrorIs(t, <-done, context.Canceled)
		_, err = g.Do(t.Context(), "a", 1)
		require.ErrorIs(t, err, errs.ErrOverloaded, "its batch is still under way")
		close(gate)
		synctest.Wait()
		_, err = g.Do(t.Context(), "a", 1)
		require.NoError(t, err)

		require.NoError(t, g.Close(t.Context()))
		_, err = g.Do(t.Context(), "a", 1)
		require.ErrorIs(t, err, errs.ErrUnavailable)
	})
}

func TestCloseWaitsForEveryKey(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		g := batch.NewGroups(batch.Config{Timeout: time.Minute}, 10, double(gate))
		answered := make(chan int, 1)
		go func() {
			got, _ := g.Do(t.Context(), "slow", 4)
			answered <- got
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, func() { close(gate) })
		start := time.Now()
		require.NoError(t, g.Close(t.Context()))
		require.Equal(t, time.Second, time.Since(start))
		require.Equal(t, 8, <-answered)
	})
}
