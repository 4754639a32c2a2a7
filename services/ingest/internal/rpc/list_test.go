package rpc_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// The public list costs two calls a second and page, of which none is consistent, however many ask.
// What this replica changes is there at once.
func TestListIsReadOnceASecond(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var calls, consistent atomic.Int64
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		switch in := in.(type) {
		case *awsdynamo.QueryInput:
			calls.Add(1)
			if aws.ToBool(in.ConsistentRead) {
				consistent.Add(1)
			}
		case *awsdynamo.BatchGetItemInput:
			calls.Add(1)
			for _, keys := range in.RequestItems {
				if aws.ToBool(keys.ConsistentRead) {
					consistent.Add(1)
				}
			}
		}
		return nil
	}}})
	list := func(want ...string) {
		t.Helper()
		var work sync.WaitGroup
		var pages [20]*ingestv1.ListPromotionsResponse
		var errs [20]error
		for i := range pages {
			work.Go(func() {
				pages[i], errs[i] = r.ListPromotions(t.Context(), &ingestv1.ListPromotionsRequest{Limit: 9})
			})
		}
		work.Wait()
		for i, page := range pages {
			require.NoError(t, errs[i])
			var got []string
			for _, p := range page.GetItems() {
				got = append(got, p.GetEventId())
			}
			require.Equal(t, want, got)
		}
	}
	first := r.promotion(t)
	calls.Store(0)
	consistent.Store(0)
	list(first)
	require.EqualValues(t, 2, calls.Load())
	w.clock.Advance(time.Second)
	list(first)
	require.EqualValues(t, 4, calls.Load())
	require.Zero(t, consistent.Load())

	w.clock.Advance(time.Millisecond) // ids are sorted by time
	second := r.promotion(t)
	list(second, first)
}
