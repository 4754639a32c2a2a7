package rpc_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/backendtest"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
	"urr.guru/services/ingest/internal/request"
)

func TestApply(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	first := r.applied(t, event, "ann")
	require.Equal(t, "QUEUED", first.GetStatus())
	require.Equal(t, "PENDING", first.GetUiResult())
	require.False(t, first.GetDuplicate())
	again := r.applied(t, event, "ann")
	require.Equal(t, first.GetRequestId(), again.GetRequestId())
	require.True(t, again.GetDuplicate())
	require.Equal(t, []promotion.Message{{RequestID: first.GetRequestId(), EventID: event, UserID: "ann", EventType: promotion.FirstCome}}, w.bodies(t))

	marker := w.ofType(t, "MARKER")
	require.Len(t, marker, 1)
	require.Equal(t, pkgdynamo.Bool(true), marker[0]["queued"])
	timeline, err := r.GetTimeline(t.Context(), &ingestv1.GetTimelineRequest{Caller: user("ann"), RequestId: first.GetRequestId()})
	require.NoError(t, err)
	var path []string
	for _, c := range timeline.GetItems() {
		path = append(path, c.GetFromStatus()+">"+c.GetToStatus())
	}
	require.Equal(t, []string{">RECEIVED", "RECEIVED>QUEUED"}, path)
}

// A refused application stores nothing.
func TestRefusals(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	busy := w.replica(t, options{load: func(context.Context, string) (request.PromotionLoad, error) {
		return request.PromotionLoad{Unsettled: 10_001}, nil
	}})
	refused := func(r replica, event string, caller *commonv1.Caller) string {
		t.Helper()
		return r.apply(t, event, caller).GetProblem().GetReason()
	}
	require.Equal(t, "UNAUTHENTICATED", refused(r, event, &commonv1.Caller{}))
	require.Equal(t, "INVALID_ID", refused(r, event, user("a#b")))
	require.Equal(t, "PROMOTION_NOT_FOUND", refused(r, "none", user("ann")))
	require.Equal(t, "IDEMPOTENCY_KEY_INVALID", refused(r, event, &commonv1.Caller{UserId: "ann", IdempotencyKey: "\t"}))
	require.Equal(t, "OVERLOADED", refused(busy, event, user("ann")))
	w.clock.Set(start.Add(-time.Hour - time.Millisecond))
	require.Equal(t, "NOT_OPEN", refused(r, event, user("ann")))
	w.clock.Set(start.Add(24 * time.Hour))
	require.Equal(t, "NOT_OPEN", refused(r, event, user("ann")))
	w.clock.Set(start)
	_, err := r.admin.PausePromotion(t.Context(), &ingestv1.PausePromotionRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Equal(t, "NOT_OPEN", refused(r, event, user("ann")))
	require.Empty(t, w.ofType(t, "REQUEST"))
	require.Empty(t, w.ofType(t, "IDEMPOTENCY"))
	require.Empty(t, w.bodies(t))

	_, err = r.admin.ResumePromotion(t.Context(), &ingestv1.ResumePromotionRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	taken := r.applied(t, event, "ann")
	_, err = r.admin.ClosePromotion(t.Context(), &ingestv1.ClosePromotionRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Equal(t, "NOT_OPEN", refused(r, event, user("bob")))
	require.Equal(t, taken.GetRequestId(), r.applied(t, event, "ann").GetRequestId(), "who has a request gets it after the end too")
	require.Equal(t, taken.GetRequestId(), busy.applied(t, event, "ann").GetRequestId(), "and while the promotion is busy")
}

// Fifty concurrent applications of one user at two replicas give one request and one message.
func TestParallelApplicationsOfOneUser(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	replicas := []replica{w.replica(t, options{}), w.replica(t, options{})}
	event := replicas[0].promotion(t)
	const applications = 50
	ids, fresh := sync.Map{}, atomic.Int64{}
	var work sync.WaitGroup
	for i := range applications {
		work.Go(func() {
			out, err := replicas[i%2].Apply(t.Context(), &ingestv1.ApplyRequest{Items: []*ingestv1.ApplyItem{{Caller: user("ann"), EventId: event}}})
			if err != nil || out.GetResults()[0].GetApplied() == nil {
				t.Errorf("%v %v", out, err)
				return
			}
			got := out.GetResults()[0].GetApplied()
			ids.Store(got.GetRequestId(), true)
			if !got.GetDuplicate() {
				fresh.Add(1)
			}
		})
	}
	work.Wait()
	n := 0
	ids.Range(func(any, any) bool { n++; return true })
	require.Equal(t, 1, n, "ids")
	require.Equal(t, int64(1), fresh.Load(), "answers without duplicate")
	require.Len(t, w.ofType(t, "REQUEST"), 1)
	require.Len(t, w.bodies(t), 1)
}

// Applications that arrive together share calls of DynamoDB.
func TestApplicationsShareTransactions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var transactions atomic.Int64
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			transactions.Add(1)
		}
		return nil
	}}})
	event := r.promotion(t)
	const users = 100
	in := &ingestv1.ApplyRequest{}
	for i := range users {
		in.Items = append(in.Items, &ingestv1.ApplyItem{Caller: user(fmt.Sprint("u", i)), EventId: event})
	}
	before := transactions.Load()
	out, err := r.Apply(t.Context(), in)
	require.NoError(t, err)
	for _, result := range out.GetResults() {
		require.False(t, result.GetApplied().GetDuplicate())
	}
	require.Len(t, w.ofType(t, "REQUEST"), users)
	require.Less(t, transactions.Load()-before, int64(users), "each request alone would need two")
	summary, err := r.admin.GetSummary(t.Context(), &ingestv1.GetSummaryRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Equal(t, int64(users), summary.GetAccepted())
	require.Equal(t, int64(users), summary.GetUnsettled())
	require.Equal(t, int64(5), summary.GetCapacityRemaining())
}

func TestIdempotencyKeyRepeatsTheAnswer(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	with := func(key string) *ingestv1.Applied {
		t.Helper()
		return r.apply(t, event, &commonv1.Caller{UserId: "ann", IdempotencyKey: key}).GetApplied()
	}
	first := with("k")
	require.False(t, first.GetDuplicate())
	require.Equal(t, first.GetRequestId(), with("k").GetRequestId())
	require.False(t, with("k").GetDuplicate(), "the same application")
	require.True(t, with("other").GetDuplicate())
	require.True(t, with("").GetDuplicate())
}

// If the response of DynamoDB is lost, the next application finds the stored request.
func TestLostAnswerOfTheStore(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	var lose atomic.Bool
	r := w.replica(t, options{dynamo: dynamotest.Hook{After: func(in, _ any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok && lose.Load() {
			return dynamotest.ErrConnReset
		}
		return nil
	}}})
	event := r.promotion(t)
	lose.Store(true)
	require.Equal(t, "UNAVAILABLE", r.apply(t, event, user("ann")).GetProblem().GetReason())
	lose.Store(false)
	got := r.applied(t, event, "ann")
	require.True(t, got.GetDuplicate())
	require.Equal(t, "RECEIVED", got.GetStatus())
	require.Len(t, w.ofType(t, "REQUEST"), 1)
}

// While SQS does not answer, applicants get RECEIVED, and the sweeper sends their requests later.
func TestQueueAway(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	away, back := w.replica(t, options{sqsAddr: backendtest.FreeAddr(t)}), w.replica(t, options{})
	event := back.promotion(t)
	got := away.applied(t, event, "ann")
	require.Equal(t, "RECEIVED", got.GetStatus())
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Received, back.request(t, got.GetRequestId()).Status, "not old enough")
	require.Equal(t, request.Backlog{SweptAt: start}, back.sweeper.Backlog())
	w.clock.Advance(16 * time.Second) // the leases of the other replica have ended
	require.Error(t, away.sweeper.Sweep(t.Context()))
	require.Equal(t, request.Backlog{Unsent: 1, Oldest: start, SweptAt: start}, away.sweeper.Backlog(), "not swept since")
	w.clock.Advance(16 * time.Second)
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, got.GetRequestId()).Status)
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, request.Backlog{Queued: 1, Oldest: start, SweptAt: start.Add(32 * time.Second)}, back.sweeper.Backlog())
	require.NoError(t, away.sweeper.Sweep(t.Context()))
	require.Equal(t, request.Backlog{SweptAt: start.Add(32 * time.Second)}, away.sweeper.Backlog(), "another replica has the markers")
	require.Len(t, w.bodies(t), 1)
}

// A request that SQS does not accept for ten minutes fails, and its user may apply again.
func TestQueueAwayForTooLong(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	away, back := w.replica(t, options{sqsAddr: backendtest.FreeAddr(t)}), w.replica(t, options{})
	event := back.promotion(t)
	got := away.applied(t, event, "ann")
	w.clock.Advance(10 * time.Minute)
	require.Error(t, away.sweeper.Sweep(t.Context()))
	failed := back.request(t, got.GetRequestId())
	require.Equal(t, promotion.FailedFinal, failed.Status)
	require.Equal(t, promotion.FailedIngestEnqueue, failed.ResultCode)
	require.Empty(t, w.ofType(t, "MARKER"))
	require.Empty(t, w.ofType(t, "IDEMPOTENCY"))
	again := back.applied(t, event, "ann")
	require.NotEqual(t, got.GetRequestId(), again.GetRequestId())
	require.False(t, again.GetDuplicate())
	_, err := back.store.Redrive(t.Context(), got.GetRequestId())
	require.ErrorIs(t, err, promotion.ErrNotRedrivable)
}

// If a replica dies after it has stored or sent a request, the sweeper does what is left to do. The
// message is in the SQS queue only once.
func TestDiedBeforeRecording(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	died := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		tx, ok := in.(*awsdynamo.TransactWriteItemsInput)
		if ok && tx.TransactItems[0].Update != nil { // the write that records that the request was sent
			return dynamotest.ErrConnReset
		}
		return nil
	}}})
	got := died.apply(t, event, user("ann")).GetApplied()
	require.Equal(t, "QUEUED", got.GetStatus(), "the queue has it")
	require.NoError(t, died.sender.Close(t.Context()))
	require.Equal(t, promotion.Received, r.request(t, got.GetRequestId()).Status)
	w.clock.Advance(11 * time.Second)
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, r.request(t, got.GetRequestId()).Status)
	require.Len(t, w.bodies(t), 1)
}

// A message that SQS has lost is sent again with another deduplication id, but only when it is
// certainly lost.
func TestLostMessage(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	r.applied(t, event, "ann")
	require.Len(t, w.bodies(t), 1, "received and deleted, but never settled")
	for range 4 {
		w.clock.Advance(time.Minute)
		require.NoError(t, r.sweeper.Sweep(t.Context()))
	}
	require.Empty(t, w.bodies(t), "it may still be on its way")
	for range 2 {
		w.clock.Advance(time.Minute)
		require.NoError(t, r.sweeper.Sweep(t.Context()))
	}
	require.Len(t, w.bodies(t), 1)
}

// A message counts as lost when the SQS queue has been empty for five minutes after it was sent.
func TestMessageLostByAnEmptyQueue(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	w.clock.Advance(time.Minute)
	r.applied(t, event, "ann")
	require.Len(t, w.bodies(t), 1, "gone before a sweep has seen it")
	for range 4 {
		w.clock.Advance(time.Minute)
		require.NoError(t, r.sweeper.Sweep(t.Context()))
	}
	require.Empty(t, w.bodies(t), "empty for five minutes, but not since the message was sent")
	w.clock.Advance(time.Minute)
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	require.Len(t, w.bodies(t), 1)
}

// A message also counts as lost once one that was sent five minutes later was processed.
func TestMessageOvertaken(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	r.applied(t, event, "ann")
	require.Len(t, w.bodies(t), 1)
	w.clock.Advance(time.Minute)
	settle := func(sentAt time.Time) {
		t.Helper()
		tx := r.store.Begin()
		tx.Put(0, table.CapacityItem(&promotion.Capacity{EventID: event, Total: 5, Remaining: 4, SentAt: sentAt.UnixMilli()}), table.Condition{})
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, r.sweeper.Sweep(t.Context()))
	}
	settle(start.Add(5*time.Minute - time.Millisecond))
	require.Empty(t, w.bodies(t))
	settle(start.Add(5*time.Minute + time.Second))
	require.Len(t, w.bodies(t), 1)
}

// A request that cannot be decoded keeps its marker and does not stop the sweeper.
func TestUnreadableRequestIsLeft(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	away, back := w.replica(t, options{sqsAddr: backendtest.FreeAddr(t)}), w.replica(t, options{})
	event := back.promotion(t)
	broken, whole := away.applied(t, event, "ann").GetRequestId(), away.applied(t, event, "bob").GetRequestId()
	_, err := w.db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName: aws.String(w.table()), Key: table.RequestKey(broken), UpdateExpression: aws.String("SET attempts = :text"),
		ExpressionAttributeValues: pkgdynamo.Item{":text": pkgdynamo.String("many")},
	})
	require.NoError(t, err)
	w.clock.Advance(11 * time.Second)
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, whole).Status)
	require.Len(t, w.ofType(t, "MARKER"), 2)
}
