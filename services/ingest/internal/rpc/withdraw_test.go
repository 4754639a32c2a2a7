package rpc_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// withdraw withdraws a request. It returns the reason of a refusal, else an empty string.
func (r replica) withdraw(t *testing.T, name, id string) string {
	t.Helper()
	_, err := r.WithdrawRequest(t.Context(), &ingestv1.WithdrawRequestRequest{Caller: user(name), RequestId: id})
	if err == nil {
		return ""
	}
	return reason(err)
}

// countEntries returns how many entries the counters of lotteries have, and how many are stored.
func (w *environment) countEntries(t *testing.T) (counted int64, stored int) {
	t.Helper()
	for _, it := range w.ofType(t, "ENTRIES") {
		c, err := table.DecodeEntryCounter(it)
		require.NoError(t, err)
		counted += c.N
	}
	return counted, len(w.ofType(t, "ENTRY"))
}

// A user may withdraw before the cutoff, with or without an entry in the draw yet, and apply again.
func TestWithdraw(t *testing.T) {
	t.Parallel()
	for _, entered := range []bool{false, true} {
		t.Run(fmt.Sprint("entered ", entered), func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t)
			r := w.replica(t, options{})
			event := r.lottery(t)
			first := r.applied(t, event, "ann").GetRequestId()
			if entered {
				r.enter(t, first)
			}
			require.Equal(t, "REQUEST_NOT_FOUND", r.withdraw(t, "bob", first), "somebody else's")
			for range 2 {
				require.Empty(t, r.withdraw(t, "ann", first))
			}
			require.Empty(t, w.ofType(t, "MARKER"))
			counted, stored := w.countEntries(t)
			require.Zero(t, counted)
			require.Zero(t, stored)
			shown, err := r.GetRequest(t.Context(), &ingestv1.GetRequestRequest{Caller: user("ann"), RequestId: first})
			require.NoError(t, err)
			require.Equal(t, "REJECTED", shown.GetStatus())
			require.Equal(t, "REJECTED_WITHDRAWN", shown.GetResultCode())
			_, err = r.GetMyRequest(t.Context(), &ingestv1.GetMyRequestRequest{Caller: user("ann"), EventId: event})
			require.Equal(t, "REQUEST_NOT_FOUND", reason(err))
			timeline, err := r.GetTimeline(t.Context(), &ingestv1.GetTimelineRequest{Caller: user("ann"), RequestId: first})
			require.NoError(t, err)
			require.Equal(t, "REJECTED", timeline.GetItems()[len(timeline.GetItems())-1].GetToStatus())

			second := r.applied(t, event, "ann")
			require.NotEqual(t, first, second.GetRequestId())
			require.False(t, second.GetDuplicate())
			r.enter(t, second.GetRequestId())
			r.closeDraw(t, event)
			require.Equal(t, []fairdraw.Exclusion{{RequestID: first, Reason: "REJECTED_WITHDRAWN"}}, r.document(t, event).Excluded)
			load, err := r.store.Load(t.Context(), event)
			require.NoError(t, err)
			require.Zero(t, load.Unsettled)
		})
	}
}

func TestWithdrawRefused(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	require.Equal(t, "NOT_WITHDRAWABLE", r.withdraw(t, "ann", r.applied(t, r.promotion(t), "ann").GetRequestId()), "first come")
	require.Equal(t, "REQUEST_NOT_FOUND", r.withdraw(t, "ann", "01a196eb-d7a8-707f-9feb-89cf3865794d"))
	event := r.lottery(t)
	ann, bob := r.applied(t, event, "ann").GetRequestId(), r.applied(t, event, "bob").GetRequestId()
	r.enter(t, ann)
	w.clock.Set(cutoff)
	require.Equal(t, "NOT_WITHDRAWABLE", r.withdraw(t, "ann", ann), "at the cutoff")
	w.clock.Set(cutoff.Add(-time.Millisecond)) // as by a clock that is behind
	r.closeCounters(t, event)
	require.Equal(t, "NOT_WITHDRAWABLE", r.withdraw(t, "ann", ann), "closed")
	require.Equal(t, "NOT_WITHDRAWABLE", r.withdraw(t, "bob", bob), "closed")
	counted, stored := w.countEntries(t)
	require.Equal(t, int64(1), counted)
	require.Equal(t, 1, stored)
}

// A request is withdrawn, made an entry, and its group is closed, all at once. Then the request
// either is an entry that counts, or is withdrawn, or waits to be rejected.
func TestWithdrawAgainstSettleAndClose(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long races of replicas")
	w := newEnvironment(t)
	a, b := w.replica(t, options{}), w.replica(t, options{})
	event := a.lottery(t)
	const users = 20
	ids := make([]string, users)
	for i := range ids {
		ids[i] = a.applied(t, event, fmt.Sprint("u", i)).GetRequestId()
	}
	begin := make(chan struct{})
	refused := make([]string, users)
	var work sync.WaitGroup
	for i, id := range ids {
		work.Go(func() {
			<-begin
			refused[i] = a.withdraw(t, fmt.Sprint("u", i), id)
		})
		work.Go(func() {
			<-begin
			if err := b.tryEnter(t, id); err != nil && !dynamo.Contended(err) && !lockTimedOut(err) {
				t.Error(err)
			}
		})
		if i == users/2 {
			work.Go(func() {
				<-begin
				a.closeCounters(t, event)
			})
		}
	}
	close(begin)
	work.Wait()
	entries, withdrawn := 0, 0
	for i, id := range ids {
		r := a.request(t, id)
		if r.ResultCode == promotion.RejectedWithdrawn {
			withdrawn++
			require.Empty(t, refused[i])
			require.Zero(t, r.EnteredAt)
			continue
		}
		require.NotEmpty(t, refused[i])
		require.False(t, r.Status.Final())
		if r.EnteredAt != 0 {
			entries++
		}
	}
	counted, stored := w.countEntries(t)
	require.Equal(t, entries, stored)
	require.Equal(t, int64(entries), counted)
	require.Len(t, w.ofType(t, "EXCLUDED"), withdrawn)
	require.Len(t, w.ofType(t, "MARKER"), users-entries-withdrawn)
	require.Len(t, w.ofType(t, "IDEMPOTENCY"), users)
	load, err := a.store.Load(t.Context(), event)
	require.NoError(t, err)
	require.Equal(t, int64(users-entries-withdrawn), load.Unsettled)
}

// A user who has withdrawn three times may not apply again, so that the list of excluded requests
// has at most three of each user. The user may still apply to other lotteries.
func TestWithdrawnTooOften(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	for range 3 {
		got := r.applied(t, event, "ann")
		require.False(t, got.GetDuplicate())
		require.Empty(t, r.withdraw(t, "ann", got.GetRequestId()))
		require.Empty(t, r.withdraw(t, "ann", got.GetRequestId()), "a repeat does not count")
		w.clock.Advance(time.Millisecond)
	}
	require.Equal(t, "WITHDRAWN_TOO_OFTEN", r.apply(t, event, user("ann")).GetProblem().GetReason())
	require.Len(t, w.ofType(t, "EXCLUDED"), 3)
	r.applied(t, event, "bob")
	r.applied(t, r.lottery(t), "ann")
	w.clock.Set(cutoff)
	require.Equal(t, "NOT_OPEN", r.apply(t, event, user("ann")).GetProblem().GetReason())
}

// The user of a failed request may apply again, but the earlier withdrawals still count.
func TestWithdrawalsCountAfterAFailure(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	for range 2 {
		require.Empty(t, r.withdraw(t, "ann", r.applied(t, event, "ann").GetRequestId()))
	}
	failing, unlocked := r.applied(t, event, "ann").GetRequestId(), r.applied(t, event, "bob").GetRequestId()
	for _, id := range []string{failing, unlocked} {
		read := r.request(t, id)
		require.NoError(t, r.store.End(t.Context(), []promotion.Change{
			read.Ended(start.UnixMilli(), promotion.FailedFinal, promotion.FailedIngestEnqueue),
		}))
		require.Equal(t, promotion.FailedIngestEnqueue, r.request(t, id).ResultCode)
	}
	require.Len(t, w.ofType(t, "IDEMPOTENCY"), 1, "bob has withdrawn nothing")
	last := r.applied(t, event, "ann")
	require.NotEqual(t, failing, last.GetRequestId())
	require.False(t, last.GetDuplicate())
	require.Empty(t, r.withdraw(t, "ann", last.GetRequestId()))
	require.Equal(t, "WITHDRAWN_TOO_OFTEN", r.apply(t, event, user("ann")).GetProblem().GetReason())
}

// A withdrawal between the reads of an application is counted.
func TestWithdrawnWhileApplying(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	other := w.replica(t, options{})
	event := other.lottery(t)
	var id atomic.Pointer[string]
	r := w.replica(t, options{dynamo: dynamotest.Hook{After: func(in, _ any) error {
		if _, ok := in.(*awsdynamo.BatchGetItemInput); ok {
			if withdrawn := id.Swap(nil); withdrawn != nil { // the lock has been read, the request not yet
				other.withdraw(t, "ann", *withdrawn)
			}
		}
		return nil
	}}})
	last := r.applied(t, event, "ann").GetRequestId()
	id.Store(&last)
	again := r.applied(t, event, "ann").GetRequestId()
	require.Nil(t, id.Load())
	require.NotEqual(t, last, again)
	require.Empty(t, other.withdraw(t, "ann", again))
	require.Empty(t, other.withdraw(t, "ann", r.applied(t, event, "ann").GetRequestId()))
	require.Equal(t, "WITHDRAWN_TOO_OFTEN", r.apply(t, event, user("ann")).GetProblem().GetReason())
}

// A failed request cannot be redriven after its user has withdrawn a later one.
func TestRedriveBeforeAWithdrawal(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.lottery(t)
	failed := r.applied(t, event, "ann").GetRequestId()
	r.fail(t, failed)
	require.Empty(t, r.withdraw(t, "ann", r.applied(t, event, "ann").GetRequestId()))
	_, err := r.store.Redrive(t.Context(), failed)
	require.ErrorIs(t, err, promotion.ErrNotRedrivable)
}
