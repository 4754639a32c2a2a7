package settle_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/services/worker/internal/settle"
)

func isTransaction(in any) bool { _, ok := in.(*awsdynamo.TransactWriteItemsInput); return ok }

// A receive of ten messages of nine requests each costs one transaction, with one write of the
// number of places. Places are given in the order of the messages, and of the requests in each.
func TestReceiptIsOneTransaction(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 47)
	var transactions, writes atomic.Int64
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if isTransaction(in) {
			transactions.Add(1)
			writes.Store(int64(len(in.(*awsdynamo.TransactWriteItemsInput).TransactItems)))
		}
		return nil
	}})
	out := w.accept(t, 90)
	w.clock.Advance(time.Second)
	batch := w.packed(out, 9)
	w.clock.Advance(time.Second)
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.Equal(t, int64(1), transactions.Load())
	require.Equal(t, int64(94), writes.Load(), "places, figures, winners and announcements beside the requests")
	require.Len(t, worker.queue.deleted, 10)
	w.audit(t, 47)
	require.Len(t, w.ofType(t, "WINNERS_FIRST_COME"), 1)
	var last string
	for _, id := range w.sent {
		r := w.request(t, id)
		require.Less(t, last, r.QueueSeq, "by message and member")
		require.Equal(t, start.Add(time.Second).UnixMilli(), r.QueuedAt, "when the queue took it")
		require.Equal(t, start.Add(2*time.Second).UnixMilli(), r.StartedAt)
		last = r.QueueSeq
	}
}

// Every message is delivered three times, to three workers at once, and some requests are in a
// second message too. The result is that of one delivery.
func TestPackedMessagesDeliveredOften(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 11)
	out := w.accept(t, 25)
	batch := append(w.packed(out, 9), w.deliveries(out[4:8])...)
	var work sync.WaitGroup
	for range 3 {
		worker := w.worker(dynamotest.Hook{})
		work.Go(func() {
			if err := worker.Handle(t.Context(), batch); err != nil {
				t.Error(err)
			}
			if len(worker.queue.deleted) != len(batch) {
				t.Errorf("deleted: %v", worker.queue.deleted)
			}
		})
	}
	work.Wait()
	w.audit(t, 11)
}

// A request that changed between the reading and the writing is read again, with its whole batch.
func TestMemberChangesMeanwhile(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.packed(w.accept(t, 9), 9)
	var once atomic.Bool
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if ends(in, w.sent[3]) && once.CompareAndSwap(false, true) {
			r := w.request(t, w.sent[3])
			tx := w.store.Begin()
			tx.Change(0, r.Attempted(w.store.Millis(), promotion.Failure{Code: "OTHER"}))
			return tx.Commit(t.Context())
		}
		return nil
	}})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.True(t, once.Load())
	w.audit(t, 5)
	require.Equal(t, int64(1), w.request(t, w.sent[3]).Attempts)
}

// If one request of a message cannot be processed, it becomes a dead letter of its own, whose body
// has only this request. The other requests of the message get their results.
func TestPoisonedMember(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.packed(w.accept(t, 12), 9)
	poison := w.sent[3]
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if ends(in, poison) {
			return invalidItems(in.(*awsdynamo.TransactWriteItemsInput), poison)
		}
		return nil
	}})
	for attempt := range 5 {
		require.NoError(t, worker.Handle(t.Context(), batch))
		require.Equal(t, int64(attempt+1), w.request(t, poison).Attempts)
		require.Empty(t, worker.queue.deleted, "a message is kept while one of its requests is")
		require.Len(t, worker.queue.released, 2*(attempt+1), "each message once")
	}
	require.Equal(t, []promotion.Status{s, s, s, promotion.Processing, promotion.Received}, w.statuses(t)[:5])
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.Equal(t, []promotion.Status{s, s, s, promotion.Processing, s, s, r, r, r, r, r, r}, w.statuses(t))
	require.Equal(t, []string{batch[0].ID, batch[1].ID}, worker.queue.deleted)
	require.Len(t, worker.dead.forwarded, 1)
	members, err := promotion.DecodeBody(worker.dead.forwarded[0].Body)
	require.NoError(t, err)
	require.Len(t, members, 1)
	require.Equal(t, poison, members[0].RequestID)
	for range 2 { // delivered twice
		require.NoError(t, worker.HandleDead(t.Context(), worker.dead.forwarded))
	}
	require.Equal(t, promotion.FailedWorker, w.request(t, poison).ResultCode)
	letters, _, err := worker.store.DeadLetters(t.Context(), "", 10)
	require.NoError(t, err)
	require.Len(t, letters, 1)
	require.Equal(t, worker.dead.forwarded[0].Body, letters[0].Body)
	w.awaitFinished(t)
}

// If a message may be what kills the process, its requests are processed one by one.
func TestPackedMessageThatMayKill(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 2)
	batch := w.packed(w.accept(t, 3), 3)
	batch[0].Receives = 10
	var together atomic.Bool
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if ends(in, w.sent[0]) && touches(in, w.sent[1]) {
			together.Store(true)
		}
		return nil
	}})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.False(t, together.Load())
	w.audit(t, 2)
	for _, id := range w.sent {
		require.Equal(t, int64(1), w.request(t, id).Attempts)
	}
}

// The requests of a message that SQS moved by itself go back one by one, except ended ones.
func TestPackedMovedBySQS(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 3)
	out := w.accept(t, 3)
	worker := w.worker(dynamotest.Hook{})
	require.NoError(t, worker.Handle(t.Context(), w.deliveries(out)[:1]))
	batch := w.packed(out, 3)
	for range 2 { // delivered twice
		require.NoError(t, worker.HandleDead(t.Context(), batch))
	}
	require.Len(t, worker.queue.sent, 2)
	require.NoError(t, worker.Handle(t.Context(), batch), "the old generations")
	require.Equal(t, []promotion.Status{s, promotion.Queued, promotion.Queued}, w.statuses(t))
	require.NoError(t, worker.Handle(t.Context(), w.packed(worker.queue.sent, 2)))
	w.audit(t, 3)
}

// If a process dies between storing results and the writes that follow, or these fail, the markers
// stay. A process that receives the message again, or finds the markers, makes the writes.
func TestWritesBehindTheSettlementAreLost(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 4)
	batch := w.packed(w.accept(t, 9), 9)
	var lost atomic.Int64
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.BatchWriteItemInput); ok {
			lost.Add(1)
			return errors.New("lost")
		}
		return nil
	}})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.NoError(t, worker.store.Close(t.Context()))
	require.NotZero(t, lost.Load())
	require.Len(t, w.ofType(t, "MARKER"), 9)
	require.Len(t, w.ofType(t, "STATUS_LOG"), 9, "that they were received")
	other := w.worker(dynamotest.Hook{})
	second := w.packed(w.again(t, w.sent), 9)
	second[0].SequenceNumber = "7777"
	require.NoError(t, other.Handle(t.Context(), second))
	require.Len(t, other.queue.deleted, 1)
	require.NoError(t, other.store.Close(t.Context()))
	require.Len(t, w.ofType(t, "MARKER"), 9, "another message of the same requests")
	again := w.worker(dynamotest.Hook{})
	require.NoError(t, again.Handle(t.Context(), batch))
	require.Len(t, again.queue.deleted, 1)
	w.audit(t, 4)
	var settled []promotion.Request
	for _, id := range w.sent {
		settled = append(settled, w.request(t, id))
	}
	for range 2 {
		require.NoError(t, w.store.FinishSettled(t.Context(), settled))
	}
	w.audit(t, 4)
}

// The requests of a group of a lottery share messages too. A request that is withdrawn while the
// rest of its message enters is left out.
func TestPackedLottery(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	w.group = "0a"
	batch := w.packed(w.accept(t, 25), 9)
	withdrawn := w.sent[4]
	var once atomic.Bool
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if enters(in, withdrawn) && once.CompareAndSwap(false, true) {
			r := w.request(t, withdrawn)
			tx := w.store.Begin()
			tx.Change(0, r.Withdrawn(w.store.Millis()))
			return tx.Commit(t.Context())
		}
		return nil
	}})
	require.NoError(t, worker.Handle(t.Context(), batch))
	want := slices.DeleteFunc(slices.Clone(w.sent), func(id string) bool { return id == withdrawn })
	slices.Sort(want)
	require.Equal(t, want, w.entered(t))
	require.Equal(t, map[string]promotion.ResultCode{withdrawn: promotion.RejectedWithdrawn}, w.excluded(t))
	require.Len(t, worker.queue.deleted, 3)
	require.Empty(t, w.ofType(t, "MARKER"))
}

// Although a third of the transactions conflict with other ones, one call processes all requests.
func TestPackedConflicts(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 20)
	batch := w.packed(w.accept(t, 36), 9)
	var n atomic.Int64
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if isTransaction(in) && n.Add(1)%3 == 1 {
			return conflict()
		}
		return nil
	}})
	for _, m := range batch {
		require.NoError(t, worker.Handle(t.Context(), []promotion.Delivery{m}))
	}
	require.Empty(t, worker.queue.released)
	require.Greater(t, n.Load(), int64(4))
	w.audit(t, 20)
}

// If the store does not answer, no attempt is counted for any request of a message.
func TestPackedStoreAway(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 4)
	batch := w.packed(w.accept(t, 9), 9)
	var away atomic.Bool
	away.Store(true)
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if isTransaction(in) && away.Load() {
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	require.ErrorIs(t, worker.Handle(t.Context(), batch), settle.ErrStoreUnavailable)
	require.Equal(t, []string{batch[0].ID}, worker.queue.released)
	away.Store(false)
	require.NoError(t, worker.Handle(t.Context(), batch))
	w.audit(t, 4)
	for _, id := range w.sent {
		require.Zero(t, w.request(t, id).Attempts)
	}
}
