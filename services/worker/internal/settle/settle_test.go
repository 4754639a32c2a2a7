package settle_test

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	"urr.guru/services/worker/internal/settle"
)

const (
	s, r, q = promotion.Succeeded, promotion.Rejected, promotion.Queued
)

// invalid is an error of the store that does not say which request has caused it.
var invalid error = &smithy.GenericAPIError{Code: "ValidationException", Message: "refused", Fault: smithy.FaultClient}

func conflict() error {
	return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
}

// The first requests get the places, in one transaction per batch.
func TestFirstCome(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 12)
	var transactions, calls atomic.Int64
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		switch in.(type) {
		case *awsdynamo.BatchWriteItemInput, *awsdynamo.UpdateItemInput: // after the settlement; leases
		default:
			calls.Add(1)
		}
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			transactions.Add(1)
		}
		return nil
	}})
	for range 3 {
		batch := w.deliveries(w.accept(t, 10))
		require.NoError(t, worker.Handle(t.Context(), batch))
	}
	w.audit(t, 12)
	require.Equal(t, int64(3), transactions.Load())
	require.LessOrEqual(t, calls.Load(), int64(30/4), "calls of DynamoDB for 30 requests")
	require.Equal(t, w.sent, worker.queue.deleted)
	require.Empty(t, worker.queue.released)
}

// Every message is delivered three times, to three workers at once. It has the effect of one.
func TestMessagesDeliveredThreeTimes(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 7)
	var work sync.WaitGroup
	for range 2 {
		batch := w.deliveries(w.accept(t, 10))
		for range 3 {
			worker := w.worker(dynamotest.Hook{})
			work.Go(func() {
				if err := worker.Handle(t.Context(), append(batch, batch[:3]...)); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
	}
	w.audit(t, 7)
}

// Three workers on a real queue, with lost calls, lost answers and conflicts, process 60 requests
// for 30 places: exactly the first 30 by the order of the queue get them.
func TestDisturbedRun(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	w := newEnvironment(t, 30)
	live, dead := queues(t)
	out := w.accept(t, 60)
	var writes atomic.Int64
	disturb := func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); !ok {
			return nil
		}
		first := writes.Add(1) == 1
		switch fault := rand.IntN(6); {
		case first || fault == 0:
			return dynamotest.ErrConnReset
		case fault == 1:
			return conflict()
		default:
			return nil
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for range 3 {
		store := w.open(dynamotest.Hook{Before: disturb, After: func(in, _ any) error { return disturb(in) }})
		settler := settle.New(store, live, dead, settleOptions(w), slog.New(slog.DiscardHandler))
		work.Go(func() { _ = settler.Run(2)(ctx) }) // returns nil
	}
	for i := 0; i < len(out); i += 10 {
		for _, err := range live.Send(t.Context(), out[i:i+10]) {
			require.NoError(t, err)
		}
	}
	testkit.Until(t, func() bool {
		for _, id := range w.sent {
			if r, _, err := w.store.Request(t.Context(), id); err != nil || !r.Status.Final() {
				return false
			}
		}
		return true
	}, "all are settled")
	cancel()
	work.Wait()
	require.NotZero(t, writes.Load(), "the first was lost")
	w.audit(t, 30)
}

// Conflicts, failed conditions and an unavailable store are not counted as attempts.
func TestStoreAwayCountsNoAttempt(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	for name, fault := range map[string]error{
		"away": dynamotest.ErrConnReset, "conflict": conflict(),
		"throttled": &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("ThrottlingError")}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, 2)
			var broken atomic.Bool
			broken.Store(true)
			worker := w.worker(dynamotest.Hook{Before: func(in any) error {
				if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok && broken.Load() {
					return fault
				}
				return nil
			}})
			batch := w.deliveries(w.accept(t, 3))
			err := worker.Handle(t.Context(), batch)
			if name != "conflict" {
				require.ErrorIs(t, err, settle.ErrStoreUnavailable)
			}
			require.Len(t, worker.queue.released, 3, "together")
			require.Empty(t, worker.queue.deleted)
			for _, id := range w.sent {
				require.Zero(t, w.request(t, id).Attempts)
			}
			broken.Store(false)
			require.NoError(t, worker.Handle(t.Context(), batch))
			w.audit(t, 2)
		})
	}
}

// A request that cannot be processed is tried five times, and then becomes a dead letter. The
// requests before and after it get their results in order.
func TestPoison(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(in *awsdynamo.TransactWriteItemsInput, id string) error{
		"names no request": func(*awsdynamo.TransactWriteItemsInput, string) error { return invalid },
		"names it":         invalidItems,
		"panics":           func(*awsdynamo.TransactWriteItemsInput, string) error { panic("poison") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, 5)
			batch := w.deliveries(w.accept(t, 10))
			poison := w.sent[3]
			var cured atomic.Bool
			worker := w.worker(dynamotest.Hook{Before: func(in any) error {
				if !cured.Load() && ends(in, poison) {
					return fault(in.(*awsdynamo.TransactWriteItemsInput), poison)
				}
				return nil
			}})
			for attempt := range 5 {
				require.NoError(t, worker.Handle(t.Context(), batch))
				require.Equal(t, int64(attempt+1), w.request(t, poison).Attempts)
				require.Equal(t, promotion.Processing, w.request(t, poison).Status)
			}
			require.Equal(t, []promotion.Status{s, s, s, promotion.Processing, promotion.Received}, w.statuses(t)[:5], "the others wait for it")
			require.NoError(t, worker.Handle(t.Context(), batch))
			require.Len(t, worker.dead.forwarded, 1)
			require.Equal(t, []promotion.Status{s, s, s, promotion.Processing, s, s, r, r, r, r}, w.statuses(t), "the group goes on")

			require.NoError(t, worker.HandleDead(t.Context(), worker.dead.forwarded))
			failed := w.request(t, poison)
			require.Equal(t, promotion.FailedFinal, failed.Status)
			require.Equal(t, promotion.FailedWorker, failed.ResultCode)
			require.Equal(t, "SETTLE_FAILED", failed.ErrorCode)
			require.NotEmpty(t, failed.ErrorMessage)
			letters, _, err := worker.store.DeadLetters(t.Context(), "", 10)
			require.NoError(t, err)
			require.Len(t, letters, 1)
			require.Equal(t, batch[3].Body, letters[0].Body)
			w.awaitFinished(t)
			w.redriveTwice(t, worker, batch[3], &cured)
		})
	}
}

// invalidItems is DynamoDB's error for a transaction whose items of one request are invalid.
func invalidItems(in *awsdynamo.TransactWriteItemsInput, id string) error {
	reasons := make([]types.CancellationReason, len(in.TransactItems))
	for i := range reasons {
		reasons[i].Code = aws.String("None")
		if touches(&awsdynamo.TransactWriteItemsInput{TransactItems: in.TransactItems[i : i+1]}, id) {
			reasons[i].Code = aws.String("ValidationError")
		}
	}
	return &types.TransactionCanceledException{CancellationReasons: reasons}
}

// redriveTwice redrives the request of a message that has failed; the second time the cause is gone.
func (w *environment) redriveTwice(t *testing.T, by worker, old promotion.Delivery, cured *atomic.Bool) {
	t.Helper()
	poison := old.ID
	for gen := range int64(2) {
		cured.Store(gen == 1)
		again, err := by.store.Redrive(t.Context(), poison)
		require.NoError(t, err)
		require.Equal(t, gen+1, again.Gen)
		require.Len(t, w.ofType(t, "MARKER"), 1)
		old.Receives = 1
		require.NoError(t, by.Handle(t.Context(), []promotion.Delivery{old}), "an old generation is dropped")
		require.Equal(t, q, w.request(t, poison).Status)
		redriven := w.deliveries([]promotion.Outgoing{{Message: promotion.MessageOf(&again)}})
		for range 6 {
			require.NoError(t, by.Handle(t.Context(), redriven))
		}
		if gen == 0 {
			require.NoError(t, by.HandleDead(t.Context(), by.dead.forwarded[1:]))
			require.Equal(t, promotion.FailedFinal, w.request(t, poison).Status)
		}
	}
	require.Equal(t, promotion.RejectedCapacity, w.request(t, poison).ResultCode, "it takes what is left, which is nothing")
	require.Empty(t, w.request(t, poison).ErrorCode)
	w.awaitFinished(t)
	require.Zero(t, w.remaining(t))
}

// A message that was received ten times may be what kills the process. So its attempt is counted
// first, and it is handled alone.
func TestMessageThatMayKill(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.deliveries(w.accept(t, 3))
	batch[0].Receives = 10
	killer := w.sent[0]
	var alone atomic.Bool
	alone.Store(true)
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if ends(in, killer) && touches(in, w.sent[1]) {
			alone.Store(false)
		}
		if ends(in, killer) && w.request(t, killer).Attempts == 0 {
			t.Error("it is tried before it is counted")
		}
		return nil
	}})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.True(t, alone.Load())
	w.audit(t, 5)
	require.Equal(t, int64(1), w.request(t, killer).Attempts)
}

// A request is a duplicate, and rejected, if the user's lock has the id of another request.
func TestDuplicateOfAnotherRequest(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.deliveries(w.accept(t, 2))
	tx := w.store.Begin()
	tx.Put(0, table.LockItem(&promotion.Lock{EventID: event, UserID: "u0", RequestID: w.sent[1], EndsAt: start.UnixMilli()}), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, w.worker(dynamotest.Hook{}).Handle(t.Context(), batch))
	require.Equal(t, promotion.RejectedDuplicate, w.request(t, w.sent[0]).ResultCode)
	require.Equal(t, promotion.Success, w.request(t, w.sent[1]).ResultCode)
	require.Equal(t, int64(4), w.remaining(t))
}

// Requests to a promotion without a capacity fail at once: waiting would not give it one.
func TestPromotionWithoutCapacity(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.deliveries(w.accept(t, 1))
	tx := w.store.Begin()
	tx.Delete(0, table.CapacityKey(event), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, w.worker(dynamotest.Hook{}).Handle(t.Context(), batch))
	failed := w.request(t, w.sent[0])
	require.Equal(t, promotion.FailedValidation, failed.ResultCode)
	require.Equal(t, promotion.NonRetryable, failed.FailureClass)
}

// Unreadable messages are kept for operators, and delay no other message.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.deliveries(w.accept(t, 2))
	broken := promotion.Delivery{Body: "{", Group: event, ID: "broken", SentAt: start.UnixMilli()}
	w.spoil(t, w.sent[0])
	worker := w.worker(dynamotest.Hook{})
	require.NoError(t, worker.Handle(t.Context(), append([]promotion.Delivery{broken}, batch...)))
	require.Equal(t, s, w.request(t, w.sent[1]).Status)
	require.Len(t, worker.dead.forwarded, 2)
	for range 2 { // delivered twice
		require.NoError(t, worker.HandleDead(t.Context(), worker.dead.forwarded))
	}
	letters, _, err := worker.store.DeadLetters(t.Context(), "", 10)
	require.NoError(t, err)
	codes := map[string]string{}
	for _, l := range letters {
		codes[l.ErrorCode] = l.Body
	}
	require.Equal(t, map[string]string{"UNREADABLE": "{", "FAILED_SERDE": batch[0].Body}, codes)
	w.awaitFinished(t)
}

// A message that SQS moved by itself, with attempts left, goes back under a new generation.
func TestMovedBySQS(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.deliveries(w.accept(t, 1))
	worker := w.worker(dynamotest.Hook{})
	require.NoError(t, worker.HandleDead(t.Context(), batch))
	require.Len(t, worker.queue.sent, 1)
	require.Equal(t, int64(1), worker.queue.sent[0].Gen)
	require.Len(t, w.ofType(t, "MARKER"), 1)
	require.NoError(t, worker.HandleDead(t.Context(), batch), "delivered again")
	require.Len(t, worker.queue.sent, 1)
	require.NoError(t, worker.Handle(t.Context(), batch), "the old generation")
	require.False(t, w.request(t, w.sent[0]).Status.Final())
	require.NoError(t, worker.Handle(t.Context(), w.deliveries(worker.queue.sent)))
	w.audit(t, 1+4)
}

// receipts is a queue that records how often its messages were received.
type receipts struct {
	*queue.Queue

	most atomic.Int64
}

func (r *receipts) Receive(ctx context.Context) ([]promotion.Delivery, error) {
	got, err := r.Queue.Receive(ctx)
	for _, m := range got {
		r.most.Store(max(r.most.Load(), int64(m.Receives)))
	}
	return got, err
}

// A receiver keeps its messages while the store does not answer, so none is received twice.
func TestMessagesAreKeptWhileTheStoreIsAway(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	w := newEnvironment(t, 5)
	real, dead := queues(t)
	live := &receipts{Queue: real}
	for _, err := range live.Send(t.Context(), w.accept(t, 3)) {
		require.NoError(t, err)
	}
	var away atomic.Bool
	var refused atomic.Int64
	away.Store(true)
	store := w.open(dynamotest.Hook{Before: func(any) error {
		if away.Load() {
			refused.Add(1)
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	settler := settle.New(store, live, dead, settleOptions(w), slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- settler.Run(4)(ctx) }()
	testkit.Until(t, func() bool { return refused.Load() >= 3*5 }, "a batch and several probes, three attempts each")
	away.Store(false)
	testkit.Until(t, func() bool { return w.request(t, w.sent[2]).Status.Final() }, "settled")
	cancel()
	require.NoError(t, <-done)
	require.EqualValues(t, 1, live.most.Load())
	w.audit(t, 5)
	for _, id := range w.sent {
		require.Zero(t, w.request(t, id).Attempts)
	}
}
