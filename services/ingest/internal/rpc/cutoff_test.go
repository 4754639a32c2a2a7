package rpc_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// The cutoff is exact to the millisecond. The time stamp of an application is compared with it.
func TestCutoff(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	w.clock.Set(cutoff.Add(-time.Millisecond))
	in := r.applied(t, event, "ann")
	require.Equal(t, "COLLECTING", in.GetUiPhase())
	require.Equal(t, []promotion.Message{{RequestID: in.GetRequestId(), EventID: event, UserID: "ann", EventType: promotion.Lottery}}, w.bodies(t))
	w.clock.Set(cutoff)
	require.Equal(t, "NOT_OPEN", r.apply(t, event, user("bob")).GetProblem().GetReason())
	again := r.applied(t, event, "ann")
	require.True(t, again.GetDuplicate())
	require.Equal(t, in.GetReceipt(), again.GetReceipt())
	require.Equal(t, "DRAWING", again.GetUiPhase())
	w.clock.Set(announced)
	require.Equal(t, "DRAWING", r.applied(t, event, "ann").GetUiPhase(), "the result is not out because its time has come")
}

// A replica whose clock is known to be wrong accepts nothing early or late, and signs no receipt
// for a request that may miss the draw.
func TestWrongClock(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	right := w.replica(t, options{})
	wrong := func(skew time.Duration) replica {
		return w.replica(t, options{skew: func() time.Duration { return skew }})
	}
	fast, slow := wrong(40*time.Second), wrong(-40*time.Second)
	event := right.lottery(t)
	w.clock.Set(start.Add(-time.Hour + 39*time.Second))
	require.Equal(t, "NOT_OPEN", fast.apply(t, event, user("early")).GetProblem().GetReason(), "it opens a second later")
	w.clock.Set(start)
	require.NotNil(t, fast.applied(t, event, "ann").Receipt, "far from the opening and the cutoff")
	require.NotNil(t, slow.applied(t, event, "bob").Receipt)
	w.clock.Set(cutoff.Add(-time.Second))
	require.Equal(t, "NOT_OPEN", slow.apply(t, event, user("late")).GetProblem().GetReason(), "the lists are closed")
	in := right.applied(t, event, "eve")
	require.NotNil(t, in.Receipt)
	receipt := func(r replica) *string {
		got, err := r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user("eve"), RequestId: in.GetRequestId()})
		require.NoError(t, err)
		return got.Receipt
	}
	require.NotNil(t, receipt(right))
	require.Nil(t, receipt(slow), "the request may have been stored after the cutoff")
}

// Anybody can verify a receipt with the key in the draw's terms.
func TestReceipts(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	id := r.applied(t, event, "ann").GetRequestId()
	own := func() string {
		t.Helper()
		latest, err := r.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user("ann"), EventId: event})
		require.NoError(t, err)
		one, err := r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user("ann"), RequestId: id})
		require.NoError(t, err)
		require.Equal(t, latest.GetReceipt(), one.GetReceipt())
		return one.GetReceipt()
	}
	receipt := own()
	require.Equal(t, receipt, r.applied(t, event, "ann").GetReceipt())
	terms, hash, err := fairdraw.ParseCommitment([]byte(r.document(t, event).Commitment))
	require.NoError(t, err)
	open, err := fairdraw.OpenReceipt(terms.ReceiptKey[:], receipt)
	require.NoError(t, err)
	require.Equal(t, id, open.RequestID.String())
	require.Equal(t, event, open.EventID)
	require.Equal(t, hash, open.Commitment)
	require.Equal(t, start.UnixMilli(), open.At)

	w.clock.Set(cutoff.Add(5*time.Second + time.Millisecond))
	require.Empty(t, own(), "it might have been stored just now, too late for the draw")
	r.enter(t, id)
	require.Equal(t, receipt, own(), "an entry")
	require.Nil(t, r.applied(t, r.promotion(t), "ann").Receipt, "first come")
}

// lateBy returns a replica that pauses after it has given the next application its time stamp,
// before the commit.
func (w *environment) lateBy(t *testing.T, pause time.Duration) (r replica, stop *atomic.Bool) {
	t.Helper()
	stop = &atomic.Bool{}
	return w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok && stop.CompareAndSwap(true, false) {
			w.clock.Advance(pause)
		}
		return nil
	}}}), stop
}

// A request gets no receipt if its commit was confirmed late. It takes part if the draw still
// accepts entries.
func TestStoppedBetweenStampAndCommit(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		pause   time.Duration
		receipt bool
	}{"4.9 s": {4999 * time.Millisecond, true}, "15 s": {15 * time.Second, false}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t)
			r, stop := w.lateBy(t, tc.pause)
			event := r.lottery(t)
			w.clock.Set(cutoff.Add(-time.Millisecond))
			stop.Store(true)
			got := r.applied(t, event, "ann")
			require.Equal(t, tc.receipt, got.Receipt != nil)
			marker := w.ofType(t, "MARKER")
			require.Len(t, marker, 1, "the draw waits for it")
			m, err := table.DecodeMarker(marker[0])
			require.NoError(t, err)
			require.Equal(t, cutoff.Add(-time.Millisecond).UnixMilli(), m.RequestedAt)
			r.enter(t, got.GetRequestId())
			require.Empty(t, w.ofType(t, "MARKER"))
			_, found := r.closeDraw(t, event), false
			file, _, _ := r.entries(t, event, 0, 0)
			for i := range fairdraw.Entries(file).Len() {
				found = found || fairdraw.Entries(file).At(i).String() == got.GetRequestId()
			}
			require.True(t, found)
		})
	}
}

// A request that is stored after the draw has closed its entries is rejected, and nobody has a
// receipt for it.
func TestStoppedUntilTheDrawHasClosed(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	other := w.replica(t, options{})
	event := other.lottery(t)
	var stopped atomic.Bool
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*awsdynamo.TransactWriteItemsInput); ok && stopped.CompareAndSwap(true, false) {
			w.clock.Set(cutoff.Add(40 * time.Second))
			other.closeCounters(t, event)
		}
		return nil
	}}})
	w.clock.Set(cutoff.Add(-time.Millisecond))
	stopped.Store(true)
	got := r.applied(t, event, "ann")
	require.Nil(t, got.Receipt)
	require.Error(t, r.tryEnter(t, got.GetRequestId()))
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	late := r.request(t, got.GetRequestId())
	require.Equal(t, promotion.Rejected, late.Status)
	require.Equal(t, promotion.RejectedLate, late.ResultCode)
	require.Empty(t, w.ofType(t, "MARKER"))
	require.Empty(t, w.ofType(t, "ENTRY"))
	other.closeDraw(t, event)
	require.Equal(t, []fairdraw.Exclusion{{RequestID: got.GetRequestId(), Reason: "REJECTED_LATE"}}, other.document(t, event).Excluded)
	shown, err := r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user("ann"), RequestId: got.GetRequestId()})
	require.NoError(t, err)
	require.Nil(t, shown.Receipt)
	require.Equal(t, "REJECTED_LATE", shown.GetResultCode(), "this is no result of the draw")
}

// Entries of a draw do not count towards the maximum number of requests without a result.
func TestEntriesAreNoLoad(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	id := r.applied(t, event, "ann").GetRequestId()
	load := func() int64 {
		t.Helper()
		l, err := r.store.Load(t.Context(), event)
		require.NoError(t, err)
		return l.Unsettled
	}
	require.Equal(t, int64(1), load())
	r.enter(t, id)
	require.Zero(t, load())
	summary, err := r.admin.GetSummary(t.Context(), &ingestv1.GetSummaryRequest{Caller: operator(), EventId: event})
	require.NoError(t, err)
	require.Equal(t, int64(1), summary.GetEntries())
	require.Equal(t, int64(1), summary.GetUnsettled())
	require.Nil(t, summary.CapacityRemaining)
}

// A lottery's message counts as lost once one of its group, sent five minutes later, was processed.
func TestLotteryMessageOvertaken(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	id := r.applied(t, event, "ann").GetRequestId()
	require.Len(t, w.bodies(t), 1)
	w.clock.Advance(time.Minute)
	settle := func(event string, sentAt time.Time) {
		t.Helper()
		tx := r.store.Begin()
		tx.SetSentAt(&promotion.Request{EventID: event, RequestID: id}, sentAt.UnixMilli())
		require.NoError(t, tx.Commit(t.Context()))
		require.NoError(t, r.sweeper.Sweep(t.Context()))
	}
	settle(event, start.Add(5*time.Minute-time.Millisecond))
	require.Empty(t, w.bodies(t))
	settle("other", start.Add(time.Hour))
	require.Empty(t, w.bodies(t), "another lottery")
	settle(event, start.Add(5*time.Minute+time.Second))
	require.Len(t, w.bodies(t), 1)
}

// A lottery request is not lost if SQS is unavailable at the cutoff. It is sent later.
func TestLotteryRequestOutlivesTheQueue(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	away, back := w.replica(t, options{sqsAddr: "127.0.0.1:1"}), w.replica(t, options{})
	event := back.lottery(t)
	got := away.apply(t, event, &commonv1.Caller{UserId: "ann"}).GetApplied()
	require.Equal(t, "RECEIVED", got.GetStatus())
	w.clock.Advance(5 * time.Hour)
	require.Error(t, away.sweeper.Sweep(context.Background()))
	require.Equal(t, promotion.Received, back.request(t, got.GetRequestId()).Status)
	require.Len(t, w.ofType(t, "MARKER"), 1, "the draw waits for it")
	w.clock.Advance(16 * time.Second)
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, got.GetRequestId()).Status)
	require.Len(t, w.bodies(t), 1)
}

// Requests to a cancelled lottery are rejected as void, before and after their groups are closed.
func TestSweptAfterTheLotteryWasCancelled(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		t.Run(fmt.Sprint("closed ", closed), func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t)
			r := w.replica(t, options{})
			event, other := r.lottery(t), r.lottery(t)
			id, late := r.applied(t, event, "ann").GetRequestId(), r.applied(t, other, "ann").GetRequestId()
			r.put(t, &promotion.Draw{EventID: event, Phase: promotion.DrawVoid, VoidedAt: start.UnixMilli()})
			if closed {
				r.closeCounters(t, event)
			}
			r.closeCounters(t, other)
			w.clock.Advance(11 * time.Second)
			require.NoError(t, r.sweeper.Sweep(t.Context()))
			require.Equal(t, promotion.RejectedVoid, r.request(t, id).ResultCode)
			require.Equal(t, promotion.RejectedLate, r.request(t, late).ResultCode)
			require.Empty(t, w.ofType(t, "MARKER"))
		})
	}
}

// Requests to many lotteries can end in one call, although each lottery needs more items in it.
func TestEndsOfManyLotteries(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{sqsAddr: "127.0.0.1:1"})
	const lotteries = 15
	ends := make([]promotion.Change, lotteries)
	for i := range ends {
		read := r.request(t, r.applied(t, r.lottery(t), "ann").GetRequestId())
		ends[i] = read.Ended(start.UnixMilli(), promotion.FailedFinal, promotion.FailedIngestEnqueue)
	}
	require.NoError(t, r.store.End(t.Context(), ends))
	require.Empty(t, w.ofType(t, "MARKER"))
	require.Empty(t, w.ofType(t, "IDEMPOTENCY"))
	require.Len(t, w.ofType(t, "EXCLUDED"), lotteries)
}
