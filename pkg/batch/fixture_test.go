package batch_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/testkit"
)

func TestMain(m *testing.M) { testkit.MainWithoutLeaks(m) }

// recorder is a fn that doubles its items and remembers the batches.
type recorder struct {
	mu      sync.Mutex
	batches [][]int
	gate    chan struct{} // nil: no waiting
	running atomic.Int32
	most    atomic.Int32
}

func (r *recorder) run(ctx context.Context, in []int) ([]int, error) {
	n := r.running.Add(1)
	defer r.running.Add(-1)
	for m := r.most.Load(); n > m && !r.most.CompareAndSwap(m, n); m = r.most.Load() {
	}
	r.mu.Lock()
	r.batches = append(r.batches, slices.Clone(in))
	r.mu.Unlock()
	if r.gate != nil {
		select {
		case <-r.gate:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	out := make([]int, len(in))
	for i, v := range in {
		out[i] = 2 * v
	}
	return out, nil
}

func (r *recorder) sizes() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	var sizes []int
	for _, b := range r.batches {
		sizes = append(sizes, len(b))
	}
	return sizes
}

// callers ask at once and note what each was answered.
type callers struct {
	coalescer asker
	wg        sync.WaitGroup
	mu        sync.Mutex
	answers   map[int]answer
}

type asker interface {
	Do(ctx context.Context, in int) (int, error)
}

type answer struct {
	Value int
	Err   error
}

func (c *callers) do(ctx context.Context, in int) {
	c.wg.Go(func() {
		v, err := c.coalescer.Do(ctx, in)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.answers == nil {
			c.answers = make(map[int]answer)
		}
		c.answers[in] = answer{v, err}
	})
}

// requireAnswers waits for all answers and compares them with want.
func (c *callers) requireAnswers(t *testing.T, want map[int]answer) {
	t.Helper()
	c.wg.Wait()
	require.Empty(t, cmp.Diff(want, c.answers, cmpopts.EquateErrors()))
}

// doubled are the answers to 0, 1, … n-1.
func doubled(n int) map[int]answer {
	want := make(map[int]answer, n)
	for i := range n {
		want[i] = answer{Value: 2 * i}
	}
	return want
}
