// Package batchrpc implements both sides of a batched RPC: a request with repeated items, and a
// response with one result per item in the same order, each a value or a Problem (proto/README.md,
// "Batches"). The gRPC status concerns the whole call only.
//
// A server uses Each when items are independent, or Whole when the domain processes the whole
// batch. A client uses Call to turn a method into the function of a batch.Coalescer.
package batchrpc

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"urr.guru/pkg/batch"
	"urr.guru/pkg/errs"

	commonv1 "urr.guru/proto/gen/urr/common/v1"
)

// MaxItems is the largest number of items in a request.
const MaxItems = 1000

// ValidItems reports whether a request may have these items, all of which must be valid.
func ValidItems[I any](items []I, valid func(I) bool) bool {
	return len(items) > 0 && len(items) <= MaxItems && !slices.ContainsFunc(items, func(it I) bool { return !valid(it) })
}

// PerItem calls handle once for each item, concurrently. result makes an item's result from its value
// or error, also concurrently. If either panics, the item gets errs.ErrInternal.
func PerItem[I, O, R any](ctx context.Context, items []I, handle func(context.Context, I) (O, error), result func(O, error) R) []R {
	results := make([]R, len(items))
	answer := func(i int) {
		defer func() { // interceptors do not see panics of other goroutines, which would end the process
			if p := recover(); p != nil {
				var none O
				results[i] = result(none, errs.FromPanic(p))
			}
		}()
		results[i] = result(handle(ctx, items[i]))
	}
	if len(items) == 1 { // needs no goroutine
		answer(0)
		return results
	}
	var wg sync.WaitGroup
	for i := range items {
		wg.Go(func() { answer(i) })
	}
	wg.Wait()
	return results
}

// PerBatch calls handle once with all items that convert accepts, unless there are none. handle
// returns one answer per converted item, in order; if it returns another number, all of these fail
// with errs.ErrInternal. result makes an item's result from its answer or convert's error.
func PerBatch[I, V, A, R any](
	ctx context.Context, items []I, convert func(I) (V, error), handle func(context.Context, []V) []A, result func(A, error) R,
) []R {
	values := make([]V, 0, len(items))
	refused := make([]error, len(items))
	for i, item := range items {
		v, err := convert(item)
		if err != nil {
			refused[i] = err
			continue
		}
		values = append(values, v)
	}
	var answers []A
	var failed error
	if len(values) > 0 {
		answers = handle(ctx, values)
		if len(answers) != len(values) {
			failed = errs.ErrInternal.Wrap(fmt.Errorf("%d answers for %d items", len(answers), len(values)))
		}
	}
	results := make([]R, len(items))
	next := 0
	for i, err := range refused {
		var answer A
		switch {
		case err != nil:
		case failed != nil:
			err = failed
		default:
			answer = answers[next]
			next++
		}
		results[i] = result(answer, err)
	}
	return results
}

// Method is an RPC method of a generated client.
type Method[Req, Res any] func(ctx context.Context, req Req, opts ...grpc.CallOption) (Res, error)

// Response is the response of a batched RPC.
type Response[R any] interface{ GetResults() []R }

// Result is the result of one item: a value or a Problem.
type Result interface{ GetProblem() *commonv1.Problem }

// Call turns an RPC method into the function that batch.NewItems and batch.NewGroups take: it sends
// the items in one request, and returns for each item the value or, as an error, the Problem.
func Call[I, O, Req any, R Result, Res Response[R]](
	method Method[Req, Res], request func([]I) Req, value func(R) O,
) func(context.Context, []I) ([]batch.Result[O], error) {
	return func(ctx context.Context, items []I) ([]batch.Result[O], error) {
		res, err := method(ctx, request(items))
		if err != nil {
			return nil, err
		}
		results := res.GetResults()
		out := make([]batch.Result[O], len(results))
		for i, r := range results {
			if p := r.GetProblem(); p != nil {
				out[i].Err = errs.FromProblem(p)
			} else {
				out[i].Value = value(r)
			}
		}
		return out, nil
	}
}
