package rpc_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
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

// Pages of the list join, whatever their limits, and one read serves all limits.
func TestPagesOfTheList(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var reads atomic.Int64
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.QueryInput); ok {
			reads.Add(1)
		}
		return nil
	}}})
	var want []string
	for range 5 {
		want = append([]string{r.promotion(t)}, want...)
		w.clock.Advance(time.Millisecond) // ids are sorted by time
	}
	reads.Store(0)
	for _, limit := range []int32{1, 2, 5, 100} {
		var got []string
		for cursor := ""; ; {
			page, err := r.ListPromotions(t.Context(), &ingestv1.ListPromotionsRequest{Limit: limit, Cursor: cursor})
			require.NoError(t, err)
			require.LessOrEqual(t, len(page.GetItems()), int(limit))
			for _, p := range page.GetItems() {
				got = append(got, p.GetEventId())
			}
			if cursor = page.GetNextCursor(); cursor == "" {
				break
			}
		}
		require.Equal(t, want, got, "limit %d", limit)
	}
	require.LessOrEqual(t, reads.Load(), int64(5), "one for each cursor")

	_, err := r.ListPromotions(t.Context(), &ingestv1.ListPromotionsRequest{Cursor: uuid.NewString()})
	require.Equal(t, errs.ErrInvalidCursor.Reason, errs.From(err).Reason, "a cursor that nobody has given out")
	require.LessOrEqual(t, reads.Load(), int64(5), "a made-up cursor reads no page")
}

// While the reads of later pages hang, the first page is there.
func TestFirstPageWaitsForNoOther(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	hang, reached := make(chan struct{}), make(chan struct{}, 1)
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if in, ok := in.(*awsdynamo.QueryInput); ok && in.ExclusiveStartKey != nil {
			reached <- struct{}{}
			<-hang
		}
		return nil
	}}})
	event := r.promotion(t)
	var later sync.WaitGroup
	later.Go(func() {
		_, _ = r.ListPromotions(t.Context(), &ingestv1.ListPromotionsRequest{Cursor: event})
	})
	<-reached
	page, err := r.ListPromotions(t.Context(), &ingestv1.ListPromotionsRequest{})
	close(hang)
	later.Wait()
	require.NoError(t, err)
	require.Len(t, page.GetItems(), 1)
}
