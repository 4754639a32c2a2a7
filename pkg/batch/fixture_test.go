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

// recorder records the batches that its method run gets. run doubles each item.
type recorder struct {
	mu         sync.Mutex
	batches    [][]int
	gate       chan struct{} // each batch waits to receive from it; nil: no batch waits
	running    atomic.Int32
	maxRunning atomic.Int32
}

func (r *recorder) run(ctx context.Context, in []int) ([]int, error) {
	n := r.running.Add(1)
	defer r.running.Add(-1)
	for m := r.maxRunning.Load(); n > m && !r.maxRunning.CompareAndSwap(m, n); m = r.maxRunning.Load() {
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

// callers calls Do from many goroutines and records the answers by item.
type callers struct {
	coalescer doer
	wg        sync.WaitGroup
	mu        sync.Mutex
	answers   map[int]answer
}

type doer interface {
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

// doubled returns the expected answers to the items 0, 1, … n-1.
func doubled(n int) map[int]answer {
	want := make(map[int]answer, n)
	for i := range n {
		want[i] = answer{Value: 2 * i}
	}
	return want
}
