package draw_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/fairdraw"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/testkit"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo/drawtest"
	"urr.guru/services/worker/internal/settle"
)

// A draw runs from its cutoff to its end. Each phase publishes what it should.
func TestDraw(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 20)
	require.Equal(t, promotion.DrawOpen, w.pass(t, after-time.Millisecond))
	require.Empty(t, w.ofType(t, "DRAW"))
	w.verify(t)

	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	report := w.verify(t)
	require.Equal(t, int64(20), report.Statement.Count)
	require.Zero(t, report.Statement.MissedRounds)
	w.requireHidden(t)
	require.Equal(t, promotion.DrawRoot, w.pass(t, round-time.Millisecond))
	require.Zero(t, w.source.asked, "the round is not published")

	require.Equal(t, promotion.DrawRoot, w.pass(t, round))
	require.True(t, w.verify(t).ValueKnown)
	w.requireHidden(t)
	require.Equal(t, promotion.DrawRoot, w.pass(t, ranked-time.Millisecond))
	require.Empty(t, w.ofType(t, "WINNERS"), "no result lies in the table for long")
	require.Equal(t, promotion.DrawDrawn, w.pass(t, ranked))
	w.requireHidden(t)
	require.Equal(t, promotion.DrawDrawn, w.pass(t, announced-time.Millisecond))
	w.requireHidden(t)
	require.Zero(t, w.figures.last.Late)
	w.clock.Set(cutoff.Add(announced))
	require.Equal(t, promotion.PromotionClosed, w.status(t), "the result is not out because its time has come")

	require.Equal(t, promotion.DrawDrawn, w.pass(t, announced))
	require.True(t, w.verify(t).Complete, "the result is public")
	require.Equal(t, promotion.PromotionAnnounced, w.status(t))
	require.Equal(t, promotion.DrawDrawn, w.pass(t, settles-time.Millisecond))
	require.Empty(t, w.ofType(t, "OUTBOX"), "consumers hear nothing from a clock that is ahead")
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
	report = w.verify(t)
	require.True(t, report.Complete)
	require.Equal(t, winners, report.Winners)
	w.requireResults(t)
	require.Equal(t, promotion.DrawSettled, w.pass(t, announced+time.Hour))
}

// The draw waits for each request from before the cutoff: in an open group, where the request may
// still enter, and again after the groups have closed, where it is rejected.
func TestDrawWaitsForEachRequest(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 5)
	missing := w.received(t)
	require.Equal(t, promotion.DrawOpen, w.pass(t, after+90*time.Second))
	require.Equal(t, 90*time.Second, w.figures.last.Waiting)
	c := missing.Entered(w.store.Millis(), promotion.Turn{SequenceNumber: "9"})
	w.change(t, c)
	w.entries = append(w.entries, c.After)

	// Another request is accepted while the groups close.
	var late promotion.Request
	var once sync.Once
	hooked := w.open(dynamotest.Hook{Before: func(in any) error {
		if closesGroup(in) {
			once.Do(func() { late = w.received(t) })
		}
		return nil
	}})
	require.NoError(t, w.drawer(leaseless{hooked}).Pass(t.Context()))
	require.NotEmpty(t, late.RequestID)
	require.Equal(t, promotion.DrawOpen, w.lottery(t).Draw.Phase)
	require.ErrorIs(t, w.store.Change(t.Context(), late.Entered(w.store.Millis(), promotion.Turn{SequenceNumber: "10"})), settle.ErrChanged, "its group is closed")
	w.change(t, late.Settled(w.store.Millis(), promotion.Rejected, promotion.RejectedLate, promotion.Turn{SequenceNumber: "10"}))
	require.Equal(t, promotion.DrawRoot, w.pass(t, after+2*time.Minute))
	report := w.verify(t)
	require.Equal(t, int64(6), report.Statement.Count)
	require.Equal(t, int64(1), report.Statement.ExcludedCount)
	require.Zero(t, w.figures.last.Waiting)
}

// slowSettler blocks the writing of results until release is closed.
type slowSettler struct {
	leaseless

	begun   atomic.Int64
	release chan struct{}
}

func (s *slowSettler) SettleEntries(ctx context.Context, entries []uuid.UUID, decide draw.DecideEntry) error {
	s.begun.Add(1)
	<-s.release
	return s.leaseless.SettleEntries(ctx, entries, decide)
}

// Draws whose results are being written delay the root of no other draw, however many they are.
func TestResultsDelayNoRoot(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	const earlier = 4
	for range earlier {
		event := drawtest.OpenLottery(t, w.store, cutoff.Add(-settles), nil)
		drawtest.AddEntries(t, w.store, event, 1)
	}
	w.enter(t, 2)
	w.pass(t, after-settles)
	w.pass(t, round-settles)
	w.clock.Set(cutoff)
	store := &slowSettler{leaseless: leaseless{w.store}, release: make(chan struct{})}
	drawer := w.drawer(store)
	done := make(chan error, 2)
	pass := func() { done <- drawer.Pass(t.Context()) }
	go pass()
	testkit.Until(t, func() bool { return store.begun.Load() == earlier }, "the results of all earlier draws are being written")
	w.clock.Set(cutoff.Add(after))
	go pass()
	testkit.Until(t, func() bool { return w.lottery(t).Draw.Phase == promotion.DrawRoot }, "the root of the later draw")
	close(store.release)
	require.NoError(t, errors.Join(<-done, <-done))
}

func closesGroup(in any) bool {
	switch in := in.(type) {
	case *awsdynamo.UpdateItemInput:
		return in.ExpressionAttributeNames["#closed"] != ""
	case *awsdynamo.TransactWriteItemsInput:
		u := in.TransactItems[0].Update
		return u != nil && strings.HasPrefix(*u.UpdateExpression, "SET #type = :type, #closed")
	}
	return false
}

// Requests that end during the draw change neither the entries nor the exclusions.
func TestListsStayAsSigned(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 4)
	failed := w.received(t)
	end := failed.Failed(w.store.Millis(), promotion.FailedWorker, promotion.Failure{Code: "X"})
	w.change(t, end)
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	redriven, err := w.store.Redrive(t.Context(), failed.RequestID)
	require.NoError(t, err)
	w.change(t, redriven.Settled(w.store.Millis(), promotion.Rejected, promotion.RejectedLate, promotion.Turn{SequenceNumber: "9"}))
	late := w.received(t)
	w.change(t, late.Settled(w.store.Millis(), promotion.Rejected, promotion.RejectedLate, promotion.Turn{SequenceNumber: "10"}))
	require.ErrorIs(t, w.store.Change(t.Context(), w.entries[0].Withdrawn(w.store.Millis())), settle.ErrChanged, "the lists are final")
	require.Equal(t, int64(1), w.verify(t).Statement.ExcludedCount)
	w.pass(t, round)
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
	require.True(t, w.verify(t).Complete)
}

// If writes of entries conflict with the transaction that closes all groups, the groups are closed
// one by one. Closed groups are not written again.
func TestGroupsCloseOnceDespiteConflicts(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	var closing, conflicts int
	store := w.open(dynamotest.Hook{Before: func(in any) error {
		switch in := in.(type) {
		case *awsdynamo.TransactWriteItemsInput:
			conflicts++
			return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		case *awsdynamo.UpdateItemInput:
			if *in.TableName == w.store.Table {
				closing++
			}
		}
		return nil
	}})
	require.NoError(t, store.CloseGroups(t.Context(), w.event))
	require.Equal(t, []int{len(promotion.LotteryGroups()), 1}, []int{closing, conflicts})
	require.NoError(t, store.CloseGroups(t.Context(), w.event))
	require.Equal(t, []int{len(promotion.LotteryGroups()), 1}, []int{closing, conflicts}, "they are closed")
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
}

// A group whose item a transaction of entries is writing is closed soon after. A group that cannot
// be closed does not keep other groups open.
func TestGroupsCloseDespiteWritesInProgress(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	groups := promotion.LotteryGroups()
	tries := make(map[string]int)
	store := w.open(dynamotest.Hook{Before: func(in any) error {
		switch in := in.(type) {
		case *awsdynamo.TransactWriteItemsInput:
			return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		case *awsdynamo.UpdateItemInput:
			for i, err := range []error{&types.TransactionConflictException{}, &types.ResourceNotFoundException{}} {
				if reflect.DeepEqual(in.Key, table.EntryCounterKey(w.event, groups[i])) {
					if tries[groups[i]]++; tries[groups[i]] == 1 {
						return err
					}
				}
			}
		}
		return nil
	}})
	require.Error(t, store.CloseGroups(t.Context(), w.event))
	require.Equal(t, map[string]int{groups[0]: 2, groups[1]: 1}, tries)
	closing := 0
	last := w.open(dynamotest.Hook{Before: func(in any) error {
		if in, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			closing += len(in.TransactItems)
		}
		return nil
	}})
	require.NoError(t, last.CloseGroups(t.Context(), w.event))
	require.Equal(t, 1, closing, "all others are closed")
}

// A request that is redriven while the groups close stays excluded: it can only be late.
func TestRedriveWhileTheGroupsClose(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	failed := w.received(t)
	w.change(t, failed.Failed(w.store.Millis(), promotion.FailedWorker, promotion.Failure{Code: "X"}))
	closing := w.store.Begin()
	closing.Update(table.Shared, table.EntryCounterKey(w.event, promotion.LotteryGroup(failed.RequestID)), table.CloseEntryCounter(1), table.Condition{})
	require.NoError(t, closing.Commit(t.Context()))
	_, err := w.store.Redrive(t.Context(), failed.RequestID)
	require.NoError(t, err)
	excluded, err := w.store.Exclusions(t.Context(), w.event)
	require.NoError(t, err)
	require.Len(t, excluded, 1)
	require.Equal(t, promotion.DrawOpen, w.pass(t, after), "it is unsettled")
}

func (w *environment) keysAre(t *testing.T, c fairdraw.KeyConfig) {
	t.Helper()
	require.NoError(t, w.keys.Rekey(c))
}

// A seed that is not revealed a day after the announcement is replaced by zeros, also when the
// winners were stored before its key was lost.
func TestSeedThatIsNotRevealed(t *testing.T) {
	t.Parallel()
	for name, lostAt := range map[string]time.Duration{"before the draw": after, "before the announcement": ranked} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, nil)
			w.enter(t, 8)
			w.pass(t, after)
			w.pass(t, lostAt)
			w.keysAre(t, keyConfig(2))
			before := w.lottery(t).Draw.Phase
			require.Equal(t, promotion.DrawRoot == before, lostAt == after)
			w.pass(t, announced)
			require.Equal(t, 1, w.figures.last.KeyMissing)
			w.pass(t, announced+fairdraw.SeedDeadline-time.Second)
			require.Equal(t, fairdraw.SeedDeadline-time.Second, w.figures.last.Late)
			w.requireHidden(t)
			require.Equal(t, promotion.DrawSettled, w.pass(t, announced+fairdraw.SeedDeadline))
			report := w.verify(t)
			require.True(t, report.SeedWithheld)
			require.True(t, report.Complete)
			w.requireResults(t)
		})
	}
}

// Without a beacon, the seed, the terms and the root of the entries decide.
func TestDrawWithoutABeacon(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, func(c *fairdraw.Commitment) { c.Beacon = nil })
	w.enter(t, 2)
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	require.Equal(t, promotion.DrawDrawn, w.pass(t, ranked))
	w.requireHidden(t)
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
	require.Equal(t, 2, w.verify(t).Winners, "fewer entries than places")
	w.requireResults(t)
}

func TestDrawWithoutEntries(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	for _, at := range []time.Duration{after, round, settles} {
		w.pass(t, at)
	}
	require.True(t, w.verify(t).Complete)
	require.Empty(t, w.winners(t))
	require.Empty(t, w.ofType(t, "OPEN_DRAW"))
}

// Four processes work on a draw at once, with lost calls, lost answers and conflicts. The draw has
// one result.
func TestDisturbedDraw(t *testing.T) {
	t.Parallel()
	testkit.SkipIfShort(t, "long tests with faults")
	w := newEnvironment(t, nil)
	w.enter(t, 24)
	var faults atomic.Int64
	disturb := func(any) error {
		switch rand.IntN(60) { // a pass closes 64 groups, and about two meet a fault
		case 0:
			faults.Add(1)
			return dynamotest.ErrConnReset
		case 1:
			faults.Add(1)
			return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		default:
			return nil
		}
	}
	var statements sync.Map
	for _, at := range []time.Duration{after, round, ranked, settles} {
		w.clock.Set(cutoff.Add(at))
		var work sync.WaitGroup
		for range 4 {
			store := w.open(dynamotest.Hook{Before: disturb, After: func(in, _ any) error { return disturb(in) }})
			work.Go(func() {
				drawer := w.drawer(leaseless{store})
				for range 4 {
					_ = drawer.Pass(t.Context()) // what fails is tried again
				}
			})
		}
		work.Wait()
		phase := w.pass(t, at)
		require.Equal(t, map[time.Duration]promotion.DrawPhase{
			after: promotion.DrawRoot, round: promotion.DrawRoot, ranked: promotion.DrawDrawn, settles: promotion.DrawSettled,
		}[at], phase)
		statements.Store(w.lottery(t).Draw.Statement, true)
	}
	require.NotZero(t, faults.Load())
	require.True(t, w.verify(t).Complete)
	w.requireResults(t)
	statementCount := 0
	statements.Range(func(_, _ any) bool { statementCount++; return true })
	require.Equal(t, 1, statementCount)
}
