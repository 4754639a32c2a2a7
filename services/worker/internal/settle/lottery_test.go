package settle_test

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/settle"
)

// entered returns the ids of the entries, in any order. The counters must agree with them.
func (w *environment) entered(t *testing.T) []string {
	t.Helper()
	ids := []string{}
	for _, it := range w.ofType(t, "ENTRY") {
		id, err := table.DecodeEntry(it)
		require.NoError(t, err)
		require.NotZero(t, w.request(t, id).EnteredAt)
		ids = append(ids, id)
	}
	var counted int64
	for _, it := range w.ofType(t, "ENTRIES") {
		c, err := table.DecodeEntryCounter(it)
		require.NoError(t, err)
		counted += c.N
	}
	require.Equal(t, int64(len(ids)), counted)
	slices.Sort(ids)
	return ids
}

// excluded returns the reasons of the exclusions, by request.
func (w *environment) excluded(t *testing.T) map[string]promotion.ResultCode {
	t.Helper()
	reasons := map[string]promotion.ResultCode{}
	for _, it := range w.ofType(t, "EXCLUDED") {
		e, err := table.DecodeExclusion(it)
		require.NoError(t, err)
		reasons[e.RequestID] = e.Reason
	}
	return reasons
}

func (w *environment) close(t *testing.T) {
	t.Helper()
	for _, g := range promotion.LotteryGroups() {
		tx := w.store.Begin()
		tx.Update(0, table.EntryCounterKey(event, g), table.CloseEntryCounter(w.store.Millis()), table.Condition{})
		require.NoError(t, tx.Commit(t.Context()))
	}
}

func (w *environment) draw(t *testing.T, phase promotion.DrawPhase) {
	t.Helper()
	tx := w.store.Begin()
	tx.Put(0, table.DrawItem(&promotion.Draw{EventID: event, Phase: phase}), table.Absent())
	require.NoError(t, tx.Commit(t.Context()))
}

// fails lets a request fail all its attempts, so that it becomes a dead letter.
func (w *environment) fails(t *testing.T, worker worker, message promotion.Delivery) {
	t.Helper()
	for range 6 {
		require.NoError(t, worker.Handle(t.Context(), []promotion.Delivery{message}))
	}
	require.NoError(t, worker.HandleDead(t.Context(), worker.dead.forwarded))
	worker.dead.forwarded = nil
}

// Every message is delivered three times, to three workers at once. Each request gives one entry.
func TestLotteryEntries(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 20))
	for i := range batch {
		batch[i].SentAt = start.Add(time.Duration(i) * time.Second).UnixMilli()
	}
	var work sync.WaitGroup
	for range 3 {
		worker := w.worker(dynamotest.Hook{})
		work.Go(func() {
			for chunk := range slices.Chunk(batch, 10) {
				if err := worker.Handle(t.Context(), chunk); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	want := slices.Clone(w.sent)
	slices.Sort(want)
	require.Equal(t, want, w.entered(t))
	require.Empty(t, w.excluded(t))
	require.Empty(t, w.ofType(t, "MARKER"))
	require.Empty(t, w.ofType(t, "OUTBOX"), "an entry is no result")
	for i, id := range w.sent {
		r := w.request(t, id)
		require.Equal(t, promotion.Processing, r.Status)
		require.Equal(t, promotion.Turn{SequenceNumber: batch[i].SequenceNumber}.QueueSeq(), r.QueueSeq)
		items, err := w.store.Read(t.Context(), table.EntryCounterKey(event, promotion.LotteryGroup(id)))
		require.NoError(t, err)
		c, err := table.DecodeEntryCounter(items.Get(table.EntryCounterKey(event, promotion.LotteryGroup(id))))
		require.NoError(t, err)
		require.GreaterOrEqual(t, c.SentAt, batch[i].SentAt)
	}
	counts, err := table.DecodeCounts(w.ofType(t, "COUNTS"))
	require.NoError(t, err)
	require.Equal(t, int64(20), counts.Unsettled())
	require.Zero(t, counts.Waiting(), "entries are no load")

	worker := w.worker(dynamotest.Hook{})
	require.NoError(t, worker.HandleDead(t.Context(), batch[:1]), "a copy that SQS moved")
	require.Empty(t, worker.queue.sent)
	require.Zero(t, w.request(t, w.sent[0]).Gen)
}

// A group that closes between the reading and the writing accepts no entry.
func TestLotteryClosesWhileARequestEnters(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 1))
	var once atomic.Bool
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if touches(in, w.sent[0]) && once.CompareAndSwap(false, true) {
			w.close(t)
		}
		return nil
	}})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.True(t, once.Load())
	require.Empty(t, w.entered(t))
	require.Equal(t, map[string]promotion.ResultCode{w.sent[0]: promotion.RejectedLate}, w.excluded(t))
	require.Equal(t, promotion.RejectedLate, w.request(t, w.sent[0]).ResultCode)
	require.Empty(t, w.ofType(t, "MARKER"))
}

// Whatever ends a request without an entry excludes it, with the reason.
func TestLotteryExclusions(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 4))
	duplicate, late, failed, withdrawn := w.sent[0], w.sent[1], w.sent[2], w.sent[3]
	var broken atomic.Bool
	broken.Store(true)
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if broken.Load() && enters(in, failed) {
			return invalid
		}
		return nil
	}})
	tx := w.store.Begin()
	tx.Put(0, table.LockItem(&promotion.Lock{EventID: event, UserID: "u0", RequestID: late, EndsAt: start.UnixMilli()}), table.Condition{})
	require.NoError(t, tx.Commit(t.Context()))
	require.NoError(t, worker.Handle(t.Context(), batch[:1]))
	w.fails(t, worker, batch[2])
	require.NoError(t, worker.Handle(t.Context(), batch[3:]))
	require.Equal(t, []string{withdrawn}, w.entered(t))
	entry := w.request(t, withdrawn)
	require.NoError(t, worker.store.Change(t.Context(), entry.Withdrawn(w.store.Millis())))
	require.Empty(t, w.entered(t))
	w.close(t)
	require.NoError(t, worker.Handle(t.Context(), batch[1:2]))
	require.Equal(t, map[string]promotion.ResultCode{
		duplicate: promotion.RejectedDuplicate, late: promotion.RejectedLate, failed: promotion.FailedWorker, withdrawn: promotion.RejectedWithdrawn,
	}, w.excluded(t))
	require.Empty(t, w.ofType(t, "MARKER"))
	counts, err := table.DecodeCounts(w.ofType(t, "COUNTS"))
	require.NoError(t, err)
	require.Zero(t, counts.Unsettled())
	require.Zero(t, counts.Entered)
}

// A request with an unreadable item is excluded, so that its draw does not wait for it.
func TestLotteryUnreadable(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 2))
	broken, entered := w.sent[0], w.sent[1]
	w.spoil(t, broken)
	worker := w.worker(dynamotest.Hook{})
	for _, m := range batch { // each is in a group of its own
		require.NoError(t, worker.Handle(t.Context(), []promotion.Delivery{m}))
	}
	require.Len(t, worker.dead.forwarded, 1)
	for range 2 { // delivered twice
		require.NoError(t, worker.HandleDead(t.Context(), worker.dead.forwarded))
	}
	require.Equal(t, []string{entered}, w.entered(t))
	require.Equal(t, map[string]promotion.ResultCode{broken: promotion.FailedSerde}, w.excluded(t))
	require.Empty(t, w.ofType(t, "MARKER"))
	counts, err := table.DecodeCounts(w.ofType(t, "COUNTS"))
	require.NoError(t, err)
	require.Equal(t, int64(1), counts.Unsettled())
	require.Equal(t, int64(1), counts.Results[promotion.FailedSerde])
	require.Len(t, w.ofType(t, "OUTBOX"), 1)
	_, err = worker.store.Redrive(t.Context(), broken)
	require.ErrorIs(t, err, promotion.ErrNotRedrivable)
}

// A request that is redriven before the draw becomes an entry, and is no longer excluded.
func TestLotteryRedrive(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 1))
	var broken atomic.Bool
	broken.Store(true)
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if broken.Load() && enters(in, w.sent[0]) {
			return invalid
		}
		return nil
	}})
	w.fails(t, worker, batch[0])
	require.Len(t, w.excluded(t), 1)
	again, err := w.store.Redrive(t.Context(), w.sent[0])
	require.NoError(t, err)
	require.Empty(t, w.excluded(t))
	require.Len(t, w.ofType(t, "MARKER"), 1)
	broken.Store(false)
	require.NoError(t, worker.Handle(t.Context(), w.deliveries([]promotion.Outgoing{{Message: promotion.MessageOf(&again)}})))
	require.Equal(t, w.sent, w.entered(t))
}

// The lists of entries and exclusions do not change once they are final. A redriven request is
// late, and stays in the list of exclusions. A request that was accepted too late is not added.
func TestLotteryAfterTheLists(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 2))
	redriven, late := w.sent[0], w.sent[1]
	var broken atomic.Bool
	broken.Store(true)
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if broken.Load() && enters(in, redriven) {
			return invalid
		}
		return nil
	}})
	w.fails(t, worker, batch[0])
	w.close(t)
	w.draw(t, promotion.DrawClosed)
	again, err := w.store.Redrive(t.Context(), redriven)
	require.NoError(t, err)
	broken.Store(false)
	require.NoError(t, worker.Handle(t.Context(), w.deliveries([]promotion.Outgoing{{Message: promotion.MessageOf(&again)}})))
	require.NoError(t, worker.Handle(t.Context(), batch[1:]))
	for _, id := range w.sent {
		require.Equal(t, promotion.RejectedLate, w.request(t, id).ResultCode)
	}
	require.Equal(t, map[string]promotion.ResultCode{redriven: promotion.FailedWorker}, w.excluded(t))
	require.NotContains(t, w.excluded(t), late)
	require.Empty(t, w.entered(t))
	require.Empty(t, w.ofType(t, "MARKER"))
}

// Requests to a cancelled lottery are rejected.
func TestLotteryVoid(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 1))
	w.draw(t, promotion.DrawVoid)
	require.NoError(t, w.worker(dynamotest.Hook{}).Handle(t.Context(), batch))
	require.Equal(t, promotion.RejectedVoid, w.request(t, w.sent[0]).ResultCode)
	require.Empty(t, w.entered(t))
}

// If the store is unavailable, no attempt is counted.
func TestLotteryStoreAway(t *testing.T) {
	t.Parallel()
	w := newLottery(t)
	batch := w.deliveries(w.accept(t, 1))
	worker := w.worker(dynamotest.Hook{Before: func(in any) error {
		if enters(in, w.sent[0]) {
			return dynamotest.ErrConnReset
		}
		return nil
	}})
	require.ErrorIs(t, worker.Handle(t.Context(), batch), settle.ErrStoreUnavailable)
	require.Equal(t, []string{w.sent[0]}, worker.queue.released)
	require.Zero(t, w.request(t, w.sent[0]).Attempts)
	require.Len(t, w.ofType(t, "MARKER"), 1)
}

// enters reports whether a call makes a request an entry.
func enters(in any, id string) bool {
	if !touches(in, id) {
		return false
	}
	for _, it := range in.(*awsdynamo.TransactWriteItemsInput).TransactItems {
		if it.Put != nil && it.Put.Item["entityType"] != nil && textOf(it.Put.Item["entityType"]) == "ENTRY" {
			return true
		}
	}
	return false
}

func textOf(v types.AttributeValue) string {
	s, ok := v.(*types.AttributeValueMemberS)
	if !ok {
		return ""
	}
	return s.Value
}
