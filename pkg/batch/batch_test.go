package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
)

func TestDelayCollectsOneBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		c := batch.NewCoalescer(batch.Config{Max: 100, Delay: 150 * time.Microsecond, Inflight: 4}, r.run)
		start := time.Now()
		all := callers{coalescer: c}
		for i := range 40 {
			all.do(t.Context(), i)
		}
		all.requireAnswers(t, doubled(40))
		require.Equal(t, []int{40}, r.sizes())
		require.Equal(t, 150*time.Microsecond, time.Since(start))
	})
}

// DoAll fills batches with its items in order. Items for which the queue has no room are refused.
func TestDoAllKeepsItemsTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewGroups(batch.Config{Max: 4, Queue: 6}, 1, func(ctx context.Context, _ string, in []int) ([]batch.Result[int], error) {
			values, err := r.run(ctx, in)
			out := make([]batch.Result[int], len(values))
			for i, v := range values {
				out[i].Value = v
			}
			return out, err
		})
		var got []batch.Result[int]
		var work sync.WaitGroup
		work.Go(func() { got = c.DoAll(t.Context(), "", []int{1, 2, 3, 4, 5, 6, 7}) })
		synctest.Wait()
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, c.DoAll(cancelled, "", []int{8})[0].Err, context.Canceled)
		require.ErrorIs(t, c.DoAll(t.Context(), "another", []int{8})[0].Err, errs.ErrOverloaded, "too many keys")
		close(r.gate)
		work.Wait()
		for i, result := range got[:6] {
			require.Equal(t, batch.Result[int]{Value: 2 * (i + 1)}, result)
		}
		require.ErrorIs(t, got[6].Err, errs.ErrOverloaded)
		require.Equal(t, [][]int{{1, 2, 3, 4}, {5, 6}}, r.batches)
		require.NoError(t, c.Close(t.Context()))
		require.ErrorIs(t, c.DoAll(t.Context(), "", []int{9})[0].Err, errs.ErrUnavailable)
	})
}

// A batch that ends early must not shorten the delay of the next batch; otherwise batches would be
// small.
func TestDelayOutlastsBatchesInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Delay: 10 * time.Millisecond, Inflight: 2}, r.run)
		all := callers{coalescer: c}
		all.do(t.Context(), 0)
		time.Sleep(11 * time.Millisecond) // on the fake clock of synctest, as below
		synctest.Wait()
		require.Equal(t, []int{1}, r.sizes())
		all.do(t.Context(), 1)
		time.Sleep(5 * time.Millisecond)
		r.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{1}, r.sizes(), "the delay has not passed")
		all.do(t.Context(), 2)
		time.Sleep(6 * time.Millisecond)
		synctest.Wait()
		require.Equal(t, []int{1, 2}, r.sizes())
		close(r.gate)
		all.requireAnswers(t, doubled(3))
	})
}

// With Overlap a batch waits until the running batch has ended, and then for the callers that this
// batch released. It does not wait longer than Overlap for a slow batch.
func TestOverlapWaitsForBatchesInFlight(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Delay: 2 * time.Millisecond, Overlap: 10 * time.Millisecond, Inflight: 3}, r.run)
		all := callers{coalescer: c}
		pass := func(d time.Duration) {
			time.Sleep(d) // on the fake clock of synctest
			synctest.Wait()
		}
		all.do(t.Context(), 0)
		pass(3 * time.Millisecond)
		require.Equal(t, []int{1}, r.sizes(), "alone it waits for Delay")
		all.do(t.Context(), 1)
		pass(5 * time.Millisecond)
		r.gate <- struct{}{}
		pass(time.Millisecond)
		all.do(t.Context(), 2)
		pass(500 * time.Microsecond)
		require.Equal(t, []int{1}, r.sizes(), "the last batch has just ended")
		pass(time.Millisecond)
		require.Equal(t, []int{1, 2}, r.sizes())

		all.do(t.Context(), 3)
		pass(9 * time.Millisecond)
		require.Equal(t, []int{1, 2}, r.sizes())
		pass(2 * time.Millisecond)
		require.Equal(t, []int{1, 2, 1}, r.sizes(), "beside a slow batch")
		r.gate <- struct{}{}
		r.gate <- struct{}{}
		synctest.Wait()

		all.do(t.Context(), 4)
		pass(3 * time.Millisecond)
		all.do(t.Context(), 5)
		pass(9 * time.Millisecond)
		r.gate <- struct{}{}
		pass(1500 * time.Microsecond)
		require.Equal(t, []int{1, 2, 1, 1, 1}, r.sizes(), "never longer than Overlap")
		close(r.gate)
		all.requireAnswers(t, doubled(6))
	})
}

// Items whose delay passed while Inflight batches ran start at once when one of these batches ends.
func TestDelayedItemsFollowTheBatchThatEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Delay: 10 * time.Millisecond}, r.run)
		all := callers{coalescer: c}
		all.do(t.Context(), 0)
		time.Sleep(11 * time.Millisecond) // on the fake clock of synctest
		all.do(t.Context(), 1)
		time.Sleep(11 * time.Millisecond)
		all.do(t.Context(), 2)
		synctest.Wait()
		require.Equal(t, []int{1}, r.sizes(), "one batch at a time")
		start := time.Now()
		r.gate <- struct{}{}
		synctest.Wait()
		require.Equal(t, []int{1, 2}, r.sizes())
		require.Zero(t, time.Since(start))
		close(r.gate)
		all.requireAnswers(t, doubled(3))
	})
}

// Close does not wait for the delay of items that arrived while a batch ran.
func TestCloseEndsTheDelayBehindARunningBatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Max: 2, Delay: time.Hour}, r.run)
		all := callers{coalescer: c}
		for i := range 3 {
			all.do(t.Context(), i)
			synctest.Wait()
		}
		closed := make(chan error)
		go func() { closed <- c.Close(t.Context()) }()
		synctest.Wait()
		start := time.Now()
		close(r.gate)
		require.NoError(t, <-closed)
		require.Zero(t, time.Since(start))
		all.requireAnswers(t, doubled(3))
	})
}

func TestFullBatchDoesNotWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})} // no batch ends before all items have arrived
		c := batch.NewCoalescer(batch.Config{Max: 10, Delay: time.Hour, Inflight: 4}, r.run)
		start := time.Now()
		all := callers{coalescer: c}
		for i := range 20 {
			all.do(t.Context(), i)
		}
		synctest.Wait()
		require.Equal(t, []int{10, 10}, r.sizes())
		require.Zero(t, time.Since(start))
		close(r.gate)
		all.requireAnswers(t, doubled(20))
		require.Zero(t, r.running.Load())
	})
}

func TestGroupCommitTakesPendingItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Max: 8}, r.run)
		all := callers{coalescer: c}
		for i := range 12 {
			all.do(t.Context(), i)
			synctest.Wait()
			require.Equal(t, []int{1}, r.sizes()[:1], "the first does not wait")
		}
		require.Equal(t, []int{1}, r.sizes(), "one batch at a time")
		close(r.gate)
		all.requireAnswers(t, doubled(12))
		require.Equal(t, []int{1, 8, 3}, r.sizes())
		require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7, 8}, r.batches[1], "in the order of arrival")
		require.EqualValues(t, 1, r.maxRunning.Load())
	})
}

func TestInflightBoundsParallelBatches(t *testing.T) {
	t.Parallel()
	var r recorder
	c := batch.NewCoalescer(batch.Config{Max: 3, Inflight: 2}, r.run)
	all := callers{coalescer: c}
	for i := range 500 {
		all.do(t.Context(), i)
	}
	all.requireAnswers(t, doubled(500))
	require.LessOrEqual(t, r.maxRunning.Load(), int32(2))
	require.LessOrEqual(t, slices.Max(r.sizes()), 3)
}

func TestFullQueueRefusesImmediately(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Max: 1, Queue: 2}, r.run)
		var wg sync.WaitGroup
		for i := range 3 { // one runs, two wait
			wg.Go(func() { _, _ = c.Do(t.Context(), i) })
			synctest.Wait()
		}
		start := time.Now()
		_, err := c.Do(t.Context(), 9)
		require.ErrorIs(t, err, errs.ErrOverloaded)
		require.Positive(t, errs.From(err).RetryAfter)
		require.Zero(t, time.Since(start))
		close(r.gate)
		wg.Wait()
		_, err = c.Do(t.Context(), 10)
		require.NoError(t, err, "room again")
	})
}

func TestCancelledCallAffectsNoOtherCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{Max: 10}, r.run)
		quit, cancel := context.WithCancel(t.Context())
		all := callers{coalescer: c}
		for i, ctx := range []context.Context{quit, quit, t.Context()} { // quit ends before the batches
			all.do(ctx, i)
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		close(r.gate)
		all.requireAnswers(t, map[int]answer{0: {Err: context.Canceled}, 1: {Err: context.Canceled}, 2: {Value: 4}})
		require.Equal(t, [][]int{{0}, {2}}, r.batches, "a call cancelled before its batch starts is dropped")

		_, err := c.Do(quit, 3)
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestErrorsReachEveryCallerOfTheBatchAndNoOther(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for name, tc := range map[string]struct {
		fn   func(context.Context, []int) ([]int, error)
		want error
	}{
		"error":        {func(context.Context, []int) ([]int, error) { return nil, boom }, boom},
		"wrong length": {func(context.Context, []int) ([]int, error) { return []int{1, 2, 3}, nil }, errs.ErrInternal},
		"panic":        {func(context.Context, []int) ([]int, error) { panic("at the disco") }, errs.ErrInternal},
		"timeout":      {func(ctx context.Context, _ []int) ([]int, error) { <-ctx.Done(); return nil, ctx.Err() }, context.DeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				c := batch.NewCoalescer(batch.Config{Timeout: 10 * time.Millisecond}, tc.fn)
				for range 2 { // the coalescer works on after a failed batch
					_, err := c.Do(t.Context(), 1)
					require.ErrorIs(t, err, tc.want)
				}
			})
		})
	}
}

func TestItemsFailIndependently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		odd := errors.New("odd")
		c := batch.NewItems(batch.Config{Delay: time.Millisecond}, func(_ context.Context, in []int) ([]batch.Result[int], error) {
			out := make([]batch.Result[int], len(in))
			for i, v := range in {
				if v%2 == 1 {
					out[i].Err = odd
				} else {
					out[i].Value = v
				}
			}
			return out, nil
		})
		all, want := callers{coalescer: c}, make(map[int]answer)
		for i := range 10 {
			all.do(t.Context(), i)
			want[i] = answer{Value: i}
			if i%2 == 1 {
				want[i] = answer{Err: odd}
			}
		}
		all.requireAnswers(t, want)
	})
}

func TestCloseRunsPendingItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r recorder
		c := batch.NewCoalescer(batch.Config{Delay: time.Hour}, r.run)
		all := callers{coalescer: c}
		all.do(t.Context(), 21)
		synctest.Wait()
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, c.Close(t.Context()), "twice is once")
		all.requireAnswers(t, map[int]answer{21: {Value: 42}})
		_, err := c.Do(t.Context(), 1)
		require.ErrorIs(t, err, errs.ErrUnavailable)
	})
}

func TestCloseStopsWhenContextEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := recorder{gate: make(chan struct{})}
		c := batch.NewCoalescer(batch.Config{}, r.run)
		go func() { _, _ = c.Do(t.Context(), 1) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, c.Close(ctx), context.DeadlineExceeded)
		close(r.gate)
	})
}

func BenchmarkDo(b *testing.B) {
	c := batch.NewCoalescer(batch.Config{Max: 64}, func(_ context.Context, in []int) ([]int, error) { return in, nil })
	b.ReportAllocs()
	b.SetParallelism(64)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := c.Do(b.Context(), 1); err != nil {
				b.Error(err)
			}
		}
	})
}

// An item passed by Put runs although no caller waits for it, at the latest before Close returns.
func TestPutWaitsForNoResult(t *testing.T) {
	t.Parallel()
	r := recorder{gate: make(chan struct{})}
	c := batch.NewCoalescer(batch.Config{Max: 2, Queue: 2, Keep: true}, r.run)
	require.NoError(t, c.Put(1)) // its batch starts at once
	require.NoError(t, c.Put(2))
	require.NoError(t, c.Put(3))
	require.ErrorIs(t, c.Put(4), errs.ErrOverloaded)
	close(r.gate)
	require.NoError(t, c.Close(t.Context()))
	require.Equal(t, []int{1, 2}, r.sizes())
	require.ErrorIs(t, c.Put(5), errs.ErrUnavailable)
}
