package rpc_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/plan"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// markersPut returns the ids of the requests whose markers a transaction writes.
func markersPut(in *awsdynamo.TransactWriteItemsInput) (ids []string) {
	for _, it := range in.TransactItems {
		if it.Put == nil {
			continue
		}
		if d := (pkgdynamo.Reader{Item: it.Put.Item}); d.String("entityType") == "MARKER" {
			ids = append(ids, d.String("requestId"))
		}
	}
	return ids
}

// A request that SQS has accepted does not fail, even if this cannot be recorded for a long time.
func TestTakenButNotRecorded(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	back := w.replica(t, options{})
	event := back.promotion(t)
	forgetful := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		tx, ok := in.(*awsdynamo.TransactWriteItemsInput)
		if ok && tx.TransactItems[0].Update != nil && len(markersPut(tx)) > 0 { // records the sending
			return dynamotest.ErrConnReset
		}
		return nil
	}}})
	id := forgetful.apply(t, event, user("ann")).GetApplied().GetRequestId()
	w.clock.Advance(10 * time.Minute)
	require.Error(t, forgetful.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Received, back.request(t, id).Status)
	w.clock.Advance(16 * time.Second) // the leases of the other replica have ended
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, id).Status)
	require.Len(t, w.bodies(t), 1)
}

// Concurrent applications with one Idempotency-Key send their request once. If two changes of it
// were in one transaction, the transaction would fail, also for the other requests in it.
func TestParallelRepeatsAreSentOnce(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var twice atomic.Int64
	r := w.replica(t, options{markAfter: time.Hour, dynamo: dynamotest.Hook{Before: func(in any) error {
		if tx, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			seen := map[string]bool{}
			for _, id := range markersPut(tx) {
				if seen[id] {
					twice.Add(1)
				}
				seen[id] = true
			}
		}
		return nil
	}}})
	event := r.promotion(t)
	const users, repeats = 5, 20
	in := &ingestv1.ApplyRequest{}
	for i := range users * repeats {
		caller := &commonv1.Caller{UserId: fmt.Sprint("u", i%users), IdempotencyKey: "k"}
		in.Items = append(in.Items, &ingestv1.ApplyItem{Caller: caller, EventId: event})
	}
	out, err := r.Apply(t.Context(), in)
	require.NoError(t, err)
	require.NoError(t, r.sender.Close(t.Context())) // waits until QUEUED is recorded
	for _, result := range out.GetResults() {
		require.False(t, result.GetApplied().GetDuplicate())
		r.awaitQueued(t, result.GetApplied().GetRequestId())
	}
	require.Zero(t, twice.Load())
	require.Len(t, w.bodies(t), users)
}

// Requests that were accepted together share messages, and keep the order of acceptance.
func TestAcceptedTogetherAreSentTogether(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	in := &ingestv1.ApplyRequest{}
	const users = 100
	for i := range users {
		in.Items = append(in.Items, &ingestv1.ApplyItem{Caller: user(fmt.Sprint("u", i)), EventId: event})
	}
	_, err := r.Apply(t.Context(), in)
	require.NoError(t, err)
	bodies, messages := w.received(t)
	require.Len(t, bodies, users)
	require.Less(t, messages, users/2)
	inOrder := 0
	for i := range bodies[1:] {
		if bodies[i].RequestID < bodies[i+1].RequestID {
			inOrder++
		}
	}
	require.Greater(t, inOrder, users/2, "those of a call are sorted by their acceptance")
}

// A request that has a result before it is marked as queued is not marked.
func TestSettledRequestsAreNotMarked(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var transactions atomic.Int64
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			transactions.Add(1)
		}
		return nil
	}}, sqsAddr: backendtest.FreeAddr(t)})
	event := r.promotion(t)
	settled := r.request(t, r.applied(t, event, "ann").GetRequestId())
	open := r.request(t, r.applied(t, event, "bob").GetRequestId())
	r.givePlace(t, settled)
	before := transactions.Load()
	require.NoError(t, r.store.MarkUnsettled(t.Context(), []promotion.Request{settled}, start.UnixMilli()+7))
	require.Equal(t, before, transactions.Load())
	require.NoError(t, r.store.MarkUnsettled(t.Context(), []promotion.Request{settled, open}, start.UnixMilli()+7))
	require.Equal(t, before+1, transactions.Load())
	require.Equal(t, promotion.Succeeded, r.request(t, settled.RequestID).Status)
	require.Equal(t, start.UnixMilli()+7, r.request(t, open.RequestID).QueuedAt)
}

// givePlace makes a request a winner like the worker service, without the writes that follow.
func (r replica) givePlace(t *testing.T, read promotion.Request) {
	t.Helper()
	tx := r.store.Begin()
	require.True(t, tx.Settle(0, read.Won(r.store.Millis(), 1, promotion.Turn{SequenceNumber: "1", SentAt: r.store.Millis()})))
	require.NoError(t, tx.Commit(t.Context()))
}

// If the worker service dies after it has stored a result, the log is not written and the marker
// stays. Readers see the whole log all the same, and the sweeper writes it.
func TestSweeperFinishesSettlements(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{sqsAddr: backendtest.FreeAddr(t)})
	event := r.promotion(t)
	read := r.request(t, r.applied(t, event, "ann").GetRequestId())
	r.givePlace(t, read)
	path := func() (all []string) {
		timeline, err := r.GetTimeline(t.Context(), &ingestv1.GetTimelineRequest{Caller: user("ann"), RequestId: read.RequestID})
		require.NoError(t, err)
		for _, c := range timeline.GetItems() {
			all = append(all, fmt.Sprint(c.GetToStatus(), c.GetOccurredAt()-start.UnixMilli()))
		}
		return all
	}
	want := []string{"RECEIVED0", "QUEUED1", "PROCESSING2", "SUCCEEDED3"}
	require.Equal(t, want, path())
	require.Len(t, w.ofType(t, "STATUS_LOG"), 1)
	w.clock.Advance(11 * time.Second)
	for range 2 {
		_ = r.sweeper.Sweep(t.Context()) // SQS does not answer
		require.Empty(t, w.ofType(t, "MARKER"))
		require.Len(t, w.ofType(t, "STATUS_LOG"), 4)
		require.Equal(t, want, path())
	}
}

// requestsRead returns how many requests a call reads.
func requestsRead(in any) (n int) {
	if in, ok := in.(*awsdynamo.BatchGetItemInput); ok {
		for _, keys := range in.RequestItems {
			for _, key := range keys.Keys {
				if pk := (pkgdynamo.Reader{Item: key}); strings.HasPrefix(pk.String(table.PK), "REQ#") {
					n++
				}
			}
		}
	}
	return n
}

// The sweeper reads the requests that need a decision, and of those that wait in the queue each once
// in some passes: not all of them in every pass.
func TestSweeperReadsWhatNeedsADecision(t *testing.T) {
	t.Parallel()
	const users, turns = 40, plan.SweepTurns
	w := newEnvironment(t)
	var read atomic.Int64
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		read.Add(int64(requestsRead(in)))
		return nil
	}}})
	lottery := r.lottery(t)
	event := r.promotion(t)
	var waiting []promotion.Request
	for i := range users {
		for _, e := range []string{event, lottery} {
			id := r.applied(t, e, fmt.Sprint("u", i)).GetRequestId()
			r.awaitQueued(t, id)
			waiting = append(waiting, r.request(t, id))
			w.clock.Advance(time.Millisecond)
		}
	}
	w.clock.Advance(time.Minute)
	sweep := func() int64 {
		read.Store(0)
		require.NoError(t, r.sweeper.Sweep(t.Context()))
		return read.Load()
	}
	var sum int64
	for range turns {
		n := sweep()
		require.LessOrEqual(t, n, int64(2*users/turns))
		sum += n
	}
	require.Equal(t, int64(2*users), sum, "each once")

	w.setRemaining(t, r, event, 0)
	require.GreaterOrEqual(t, sweep(), int64(users), "all that wait for a place")
	require.Equal(t, promotion.RejectedCapacity, r.request(t, waiting[0].RequestID).ResultCode)
	require.Equal(t, promotion.Queued, r.request(t, waiting[1].RequestID).Status)
}
