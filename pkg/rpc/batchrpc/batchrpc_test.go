package batchrpc_test

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/rpc/batchrpc"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// The messages of a batched RPC, like generated ones.
type (
	request  struct{ items []string }
	response struct{ results []*result }
	result   struct {
		number  int
		problem *commonv1.Problem
	}
)

func (r *response) GetResults() []*result            { return r.results }
func (r *result) GetNumber() int                     { return r.number }
func (r *result) GetProblem() *commonv1.Problem      { return r.problem }
func toResult(n int, err error) *result              { return &result{n, errs.ToProblem(err)} }
func parse(_ context.Context, s string) (int, error) { return convert(s) }

func convert(s string) (int, error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return 0, errs.ErrInvalidRequest.Wrap(err)
	}
	return n, nil
}

// outcome is a result as seen by the caller.
type outcome struct {
	Value  int
	Reason string
}

func outcomes(results []*result) []outcome {
	out := make([]outcome, len(results))
	for i, r := range results {
		out[i] = outcome{r.number, r.problem.GetReason()}
	}
	return out
}

func TestEachKeepsTheOrder(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		items []string
		want  []outcome
	}{
		"none":    {nil, []outcome{}},
		"one":     {[]string{"7"}, []outcome{{Value: 7}}},
		"many":    {[]string{"1", "2", "3"}, []outcome{{Value: 1}, {Value: 2}, {Value: 3}}},
		"refused": {[]string{"1", "x", "3"}, []outcome{{Value: 1}, {Reason: "INVALID_REQUEST"}, {Value: 3}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, outcomes(batchrpc.PerItem(t.Context(), tc.items, parse, toResult)))
		})
	}
}

func TestEachRunsItemsConcurrently(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		batchrpc.PerItem(t.Context(), make([]string, 100), func(context.Context, string) (int, error) {
			time.Sleep(time.Second) // virtual time
			return 0, nil
		}, toResult)
		require.Equal(t, time.Second, time.Since(start))
	})
}

func TestEachTurnsAPanicIntoTheItemsProblem(t *testing.T) {
	t.Parallel()
	handle := func(ctx context.Context, s string) (int, error) {
		if s == "panic" {
			panic("broken")
		}
		return parse(ctx, s)
	}
	internal := outcome{Reason: "INTERNAL"}
	require.Equal(t, []outcome{internal}, outcomes(batchrpc.PerItem(t.Context(), []string{"panic"}, handle, toResult)))
	require.Equal(t, []outcome{{Value: 1}, internal}, outcomes(batchrpc.PerItem(t.Context(), []string{"1", "panic"}, handle, toResult)))
}

func TestTogetherPassesOnlyConvertedItems(t *testing.T) {
	t.Parallel()
	double := func(_ context.Context, in []int) []int {
		out := make([]int, len(in))
		for i, n := range in {
			out[i] = 2 * n
		}
		return out
	}
	for name, tc := range map[string]struct {
		items  []string
		handle func(context.Context, []int) []int
		want   []outcome
	}{
		"none":        {nil, nil, []outcome{}},
		"all refused": {[]string{"x", "y"}, nil, []outcome{{Reason: "INVALID_REQUEST"}, {Reason: "INVALID_REQUEST"}}},
		"some refused": {[]string{"x", "1", "y", "2"}, double, []outcome{
			{Reason: "INVALID_REQUEST"}, {Value: 2}, {Reason: "INVALID_REQUEST"}, {Value: 4},
		}},
		"too few answers": {[]string{"1", "x", "2"}, func(_ context.Context, in []int) []int { return in[:1] }, []outcome{
			{Reason: "INTERNAL"}, {Reason: "INVALID_REQUEST"}, {Reason: "INTERNAL"},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, outcomes(batchrpc.PerBatch(t.Context(), tc.items, convert, tc.handle, toResult)))
		})
	}
}

func TestCall(t *testing.T) {
	t.Parallel()
	unreachable := errors.New("unreachable")
	method := func(ctx context.Context, in *request, _ ...grpc.CallOption) (*response, error) {
		if len(in.items) == 0 {
			return nil, unreachable
		}
		return &response{batchrpc.PerItem(ctx, in.items, parse, toResult)}, nil
	}
	call := batchrpc.Call(method, func(items []string) *request { return &request{items} }, (*result).GetNumber)

	got, err := call(t.Context(), []string{"1", "x", "3"})
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]batch.Result[int]{{Value: 1}, {Err: errs.ErrInvalidRequest}, {Value: 3}}, got, cmpopts.EquateErrors()))

	_, err = call(t.Context(), nil)
	require.ErrorIs(t, err, unreachable)
}
