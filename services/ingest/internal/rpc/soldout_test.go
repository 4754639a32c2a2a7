package rpc_test

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// setRemaining stores how many places a promotion has left, and lets the replicas' caches expire.
func (w *environment) setRemaining(t *testing.T, r replica, event string, n int64) {
	t.Helper()
	tx := r.store.Begin()
	tx.Put(0, table.CapacityItem(&promotion.Capacity{EventID: event, Total: 5, Remaining: n}), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	w.clock.Advance(500 * time.Millisecond)
}

// calls counts the calls of DynamoDB.
type calls struct{ reads, writes atomic.Int64 }

func (c *calls) hook() dynamotest.Hook {
	return dynamotest.Hook{Before: func(in any) error {
		switch in.(type) {
		case *awsdynamo.BatchGetItemInput:
			c.reads.Add(1)
		case *awsdynamo.TransactWriteItemsInput:
			c.writes.Add(1)
		}
		return nil
	}}
}

func (r replica) refused(t *testing.T, event, name string) {
	t.Helper()
	require.Equal(t, "SOLD_OUT", r.apply(t, event, user(name)).GetProblem().GetReason(), name)
}

// droppingPromotion creates a promotion that does not record refused applications.
func (r replica) droppingPromotion(t *testing.T) string {
	t.Helper()
	in := creation()
	record := false
	in.RecordRejected = &record
	p, err := r.admin.CreatePromotion(t.Context(), in)
	require.NoError(t, err)
	require.False(t, p.GetRecordRejected())
	return p.GetEventId()
}

// When no place is left, users with a request get it as before. Others are refused at once, and the
// refusal is recorded after the answer. The sweeper rejects the requests in the SQS queue.
func TestSoldOut(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	keyed := &commonv1.Caller{UserId: "early", IdempotencyKey: "k"}
	waiting := r.apply(t, event, keyed).GetApplied()
	w.setRemaining(t, r, event, 0)

	require.Equal(t, waiting.GetRequestId(), r.applied(t, event, "early").GetRequestId())
	require.True(t, r.applied(t, event, "early").GetDuplicate())
	require.False(t, r.apply(t, event, keyed).GetApplied().GetDuplicate(), "the same application")
	for range 3 {
		r.refused(t, event, "late")
	}
	testkit.Until(t, func() bool { return len(w.ofType(t, "REQUEST")) == 2 }, "the refusal is recorded")
	r.refused(t, event, "late")
	w.clock.Advance(time.Minute)
	late := r.applied(t, event, "late")
	require.True(t, late.GetDuplicate())
	require.Equal(t, "REJECTED", late.GetStatus())
	require.Equal(t, promotion.RejectedCapacity, r.request(t, late.GetRequestId()).ResultCode)

	require.NoError(t, r.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Rejected, r.request(t, waiting.GetRequestId()).Status)
	require.Empty(t, w.ofType(t, "MARKER"))
	_, err := r.admin.ClosePromotion(t.Context(), &ingestv1.ClosePromotionRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Equal(t, "NOT_OPEN", r.apply(t, event, user("later")).GetProblem().GetReason())
	require.Len(t, w.ofType(t, "OUTBOX"), 2, "each end is announced")
	summary, err := r.admin.GetSummary(t.Context(), &ingestv1.GetSummaryRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Zero(t, summary.GetUnsettled())
	require.True(t, summary.GetPromotion().GetRecordRejected())
	require.Equal(t, int64(2), summary.GetResults()[0].GetRequests())
}

// If recordRejected is false, a user's refusals cost one read of a lock a minute and no write.
func TestRefusalsThatAreNotRecorded(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var c calls
	r := w.replica(t, options{dynamo: c.hook()})
	event := r.droppingPromotion(t)
	held := r.applied(t, event, "early").GetRequestId()
	ended := r.request(t, held)
	require.NoError(t, r.store.End(t.Context(), []promotion.Change{ended.Ended(start.UnixMilli(), promotion.Rejected, promotion.RejectedCapacity)}))
	w.setRemaining(t, r, event, 0)
	r.refused(t, event, "first") // then the replica has cached the promotion
	c.reads.Store(0)
	c.writes.Store(0)
	for range 20 {
		r.refused(t, event, "late")
		require.Equal(t, held, r.applied(t, event, "early").GetRequestId())
	}
	require.Equal(t, int64(3), c.reads.Load(), "a lock of each, and the request that one of them names")
	w.clock.Advance(time.Minute)
	r.refused(t, event, "late")
	require.NoError(t, r.store.Close(context.Background()), "which records what waits")
	require.Zero(t, c.writes.Load())
	require.Len(t, w.ofType(t, "REQUEST"), 1)
}

// Many applications in one call cost two reads, even if some users' requests have no result yet.
func TestSoldOutAnswersManyTogether(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var c calls
	r := w.replica(t, options{dynamo: c.hook()})
	event, recording := r.droppingPromotion(t), r.promotion(t)
	held := r.applied(t, event, "u0").GetRequestId()
	for _, e := range []string{event, recording} {
		w.setRemaining(t, r, e, 0)
	}
	r.refused(t, event, "first") // then the replica has cached the promotion
	apply := func(event string, more ...*ingestv1.ApplyItem) (reasons []string) {
		in := &ingestv1.ApplyRequest{}
		for i := range 60 { // some apply twice
			in.Items = append(in.Items, &ingestv1.ApplyItem{Caller: user(fmt.Sprint("u", i%50)), EventId: event})
		}
		in.Items = append(in.Items, more...)
		out, err := r.Apply(t.Context(), in)
		require.NoError(t, err)
		require.Len(t, out.GetResults(), len(in.GetItems()))
		for i, got := range out.GetResults() {
			if reasons = append(reasons, got.GetProblem().GetReason()); reasons[i] == "" {
				require.Equal(t, held, got.GetApplied().GetRequestId())
			}
		}
		return reasons
	}
	want := slices.Repeat([]string{"SOLD_OUT"}, 60)
	want[0], want[50] = "", ""
	for n := range int64(2) {
		c.reads.Store(0)
		require.Equal(t, want, apply(event))
		require.Equal(t, int64(2), c.reads.Load(), "locks and a request, which may have changed after call %d", n)
	}
	require.Equal(t, append(want, "UNAUTHENTICATED", "SOLD_OUT"), apply(event,
		&ingestv1.ApplyItem{Caller: &commonv1.Caller{}, EventId: event}, &ingestv1.ApplyItem{Caller: user("u1"), EventId: recording}))
	require.Equal(t, slices.Repeat([]string{"SOLD_OUT"}, 60), apply(recording))
	testkit.Until(t, func() bool { return len(w.ofType(t, "REQUEST")) == 1+50 }, "each refusal is recorded")
}

// A refusal that could not be stored is stored again later, and recorded once.
func TestRefusalsAreTriedAgain(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var lost atomic.Bool
	r := w.replica(t, options{dynamo: dynamotest.Hook{After: func(in, _ any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok && lost.CompareAndSwap(true, false) {
			return dynamotest.ErrConnReset
		}
		return nil
	}}})
	event := r.promotion(t)
	w.setRemaining(t, r, event, 0)
	lost.Store(true)
	r.refused(t, event, "late")
	require.NoError(t, r.store.Close(context.Background()))
	require.Len(t, w.ofType(t, "REQUEST"), 1)
}

// The number of free places is public. Up to 100 it is exact; a greater one is rounded down.
func TestPlacesLeft(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	for _, n := range []struct{ stored, shown int64 }{{5, 5}, {12_345, 12_300}, {199, 100}, {100, 100}, {99, 99}, {0, 0}} {
		w.setRemaining(t, r, event, n.stored)
		p, err := r.GetPromotion(t.Context(), &ingestv1.GetPromotionRequest{EventId: event})
		require.NoError(t, err)
		require.NotNil(t, p.Remaining)
		require.Equal(t, n.shown, p.GetRemaining())
	}
	p, err := r.GetPromotion(t.Context(), &ingestv1.GetPromotionRequest{EventId: r.lottery(t)})
	require.NoError(t, err)
	require.Nil(t, p.Remaining)
	in := lottery(t)
	record := false
	in.RecordRejected = &record
	_, err = r.admin.CreatePromotion(t.Context(), in)
	require.Equal(t, "INVALID_REQUEST", reason(err))
}
