package draw_test

import (
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
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo/drawtest"
)

// reads counts a Drawer's queries and read items; it is safe for concurrent use.
type reads struct{ queries, items atomic.Int64 }

// counting returns a drawer of w, and the counts of its reads.
func (w *environment) counting() (*draw.Drawer, *reads) {
	n := new(reads)
	return w.drawer(w.open(dynamotest.Hook{Before: func(in any) error {
		switch in := in.(type) {
		case *awsdynamo.QueryInput:
			n.queries.Add(1)
		case *awsdynamo.BatchGetItemInput:
			for _, keys := range in.RequestItems {
				n.items.Add(int64(len(keys.Keys)))
			}
		}
		return nil
	}})), n
}

// openMany stores lotteries whose cutoff is a year away.
func (w *environment) openMany(t *testing.T, n int) {
	t.Helper()
	p := drawtest.Promotion(t, "far", cutoff.AddDate(1, 0, 0), nil)
	for i := range n {
		p.EventID = fmt.Sprintf("far-%d", i)
		tx := w.store.Begin()
		tx.Put(0, table.PromotionItem(&p), table.Absent())
		tx.Put(0, table.OpenDrawItem(p.EventID, p.LotteryCutoffAt), table.Absent())
		require.NoError(t, tx.Commit(t.Context()))
	}
}

// Lotteries whose next step is far away cost no reads each second, however many they are, and delay
// no other.
func TestDrawsThatAreFarAwayCostNothing(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 4)
	const far = 1000
	w.openMany(t, far)
	drawer, n := w.counting()
	require.NoError(t, drawer.Pass(t.Context()), "the first pass reads all")
	require.GreaterOrEqual(t, n.items.Load(), int64(2*far))
	n.queries.Store(0)
	n.items.Store(0)
	const seconds = 30
	for range seconds {
		w.clock.Advance(time.Second)
		require.NoError(t, drawer.Pass(t.Context()))
	}
	t.Logf("%.2f queries and %.2f items a second for %d lotteries", float64(n.queries.Load())/seconds, float64(n.items.Load())/seconds, far)
	require.EqualValues(t, seconds, n.queries.Load())
	require.Zero(t, n.items.Load())
	w.clock.Set(cutoff.Add(after))
	require.NoError(t, drawer.Pass(t.Context()))
	require.Equal(t, promotion.DrawRoot, w.lottery(t).Draw.Phase)
}

// Each step is taken by the first pass after its time, whichever process has taken the step before.
// Two processes run all the time, and one has just started.
func TestStepsAreTakenInTimeByAnyProcess(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 4)
	drawers := []*draw.Drawer{w.drawer(w.store), w.drawer(w.store)}
	for _, d := range drawers {
		require.NoError(t, d.Pass(t.Context()))
	}
	for i, step := range []struct {
		at          time.Duration
		early, then promotion.DrawPhase
	}{
		{after, promotion.DrawOpen, promotion.DrawRoot},
		{ranked, promotion.DrawRoot, promotion.DrawDrawn},
		{settles, promotion.DrawDrawn, promotion.DrawSettled},
	} {
		w.clock.Set(cutoff.Add(step.at - time.Millisecond))
		for _, d := range drawers {
			require.NoError(t, d.Pass(t.Context()))
		}
		require.Equal(t, step.early, w.lottery(t).Draw.Phase)
		w.clock.Set(cutoff.Add(step.at))
		last := append(drawers, w.drawer(w.store))[i] // the three drawers alternate
		require.NoError(t, last.Pass(t.Context()))
		require.Equal(t, step.then, w.lottery(t).Draw.Phase, "%d", i)
	}
	w.requireResults(t)
	for _, d := range drawers {
		require.NoError(t, d.Pass(t.Context()))
		require.Equal(t, draw.Figures{}, w.figures.last)
	}
}

// If an operator changes a draw through one process, another carries the change out at once, long
// before the draw was due.
func TestOperatorsChangeIsSeenAtOnce(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 3)
	drawer := w.drawer(w.store)
	require.NoError(t, drawer.Pass(t.Context()))
	_, err := w.drawer(w.store).Void(t.Context(), w.event)
	require.NoError(t, err)
	w.clock.Advance(time.Second)
	require.NoError(t, drawer.Pass(t.Context()))
	w.requireVoided(t, "")
}

// A beacon value that an operator submits through one process is used by another one.
func TestSubmittedValueIsSeenInTime(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 3)
	w.source.silent = true
	drawer := w.drawer(w.store)
	for _, at := range []time.Duration{0, after, round} {
		w.clock.Set(cutoff.Add(at))
		require.NoError(t, drawer.Pass(t.Context()))
	}
	require.Equal(t, promotion.DrawRoot, w.lottery(t).Draw.Phase)
	l := w.lottery(t)
	c, _, err := fairdraw.ParseCommitment([]byte(l.Promotion.Commitment))
	require.NoError(t, err)
	value := w.source.Round(c.Round)
	_, err = w.drawer(w.store).SubmitBeacon(t.Context(), w.event, value.Randomness, value.Signature)
	require.NoError(t, err)
	w.clock.Set(cutoff.Add(ranked - time.Millisecond))
	require.NoError(t, drawer.Pass(t.Context()))
	require.Equal(t, promotion.DrawRoot, w.lottery(t).Draw.Phase)
	w.clock.Set(cutoff.Add(ranked))
	require.NoError(t, drawer.Pass(t.Context()))
	require.Equal(t, promotion.DrawDrawn, w.lottery(t).Draw.Phase)
}

// A draw makes progress even if it is listed twice, or too late. No list item is left at the end.
func TestListOfOpenDrawsHealsItself(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	tx := w.store.Begin()
	tx.Put(0, table.OpenDrawItem(w.event, cutoff.Add(-time.Hour).UnixMilli()), table.Absent())
	tx.Delete(0, table.OpenDrawKey(w.event, cutoff.UnixMilli()), table.Present())
	tx.Put(0, table.OpenDrawItem(w.event, cutoff.AddDate(0, 0, 1).UnixMilli()), table.Absent())
	require.NoError(t, tx.Commit(t.Context()))
	drawer := w.drawer(w.store)
	for _, at := range []time.Duration{-time.Minute, after, round, ranked, settles, 25 * time.Hour} {
		w.clock.Set(cutoff.Add(at))
		require.NoError(t, drawer.Pass(t.Context()))
		require.NoError(t, drawer.Pass(t.Context()))
	}
	w.requireResults(t)
}
