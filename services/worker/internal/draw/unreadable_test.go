package draw_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/draw"
	"urr.guru/services/worker/internal/dynamo/drawtest"
)

// An unreadable marker delays only the draw of its own request.
func TestUnreadableMarker(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	w.spoilMarker(t, drawtest.AddUnsettled(t, w.store, drawtest.OpenLottery(t, w.store, cutoff.Add(time.Hour), nil)))
	own := w.received(t)
	w.spoilMarker(t, own)
	require.Equal(t, promotion.DrawOpen, w.pass(t, after))
	w.change(t, own.Failed(w.store.Millis(), promotion.FailedWorker, promotion.Failure{Code: "X"}))
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
}

func (w *environment) spoilMarker(t *testing.T, r promotion.Request) {
	t.Helper()
	m := promotion.MarkerOf(&r, 0)
	_, err := w.db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName: &w.store.Table, Key: table.MarkerKey(&m), UpdateExpression: aws.String("SET eventId = :number"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":number": &types.AttributeValueMemberN{Value: "1"}},
	})
	require.NoError(t, err)
}

// spoil makes the item of a request unreadable.
func (w *environment) spoil(t *testing.T, id string) {
	t.Helper()
	_, err := w.db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName: &w.store.Table, Key: table.RequestKey(id), UpdateExpression: aws.String("SET attempts = :text"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":text": &types.AttributeValueMemberS{Value: "many"}},
	})
	require.NoError(t, err)
}

// If the item of a winner is unreadable, other requests get their results all the same, and the
// entries are not read again at once.
func TestUnreadableWinner(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 8)
	w.pass(t, after)
	w.pass(t, ranked)
	broken := w.winners(t)[0].String()
	w.spoil(t, broken)
	w.clock.Set(cutoff.Add(settles))
	var lists atomic.Int64
	drawer := w.drawer(w.open(dynamotest.Hook{Before: func(in any) error {
		if q, ok := in.(*awsdynamo.QueryInput); ok && strings.HasPrefix(q.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS).Value, "ENTRY#") {
			lists.Add(1)
		}
		return nil
	}}))
	require.NoError(t, drawer.Pass(t.Context()))
	require.Equal(t, 1, w.figures.last.Failing)
	require.Equal(t, promotion.DrawDrawn, w.lottery(t).Draw.Phase)
	for _, e := range w.entries {
		if e.RequestID != broken {
			r, _, err := w.store.Request(t.Context(), e.RequestID)
			require.NoError(t, err)
			require.True(t, r.Status.Final())
		}
	}
	read := lists.Load()
	require.NotZero(t, read)
	require.NoError(t, drawer.Pass(t.Context()))
	require.Equal(t, read, lists.Load())
	require.Equal(t, 1, w.figures.last.Failing)
	// All entries are read again after a minute, then more and more seldom, up to once an hour.
	for _, pause := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		read = lists.Load()
		w.clock.Advance(time.Duration(pause)*time.Minute - time.Millisecond)
		require.NoError(t, drawer.Pass(t.Context()))
		require.Equal(t, read, lists.Load(), "%d min", pause)
		w.clock.Advance(time.Millisecond)
		require.NoError(t, drawer.Pass(t.Context()))
		require.Greater(t, lists.Load(), read, "%d min", pause)
	}
}

// An unreadable promotion or draw stops no other draw, and is reported until it is repaired.
func TestUnreadableDraw(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	others := []string{drawtest.OpenLottery(t, w.store, cutoff, nil), drawtest.OpenLottery(t, w.store, cutoff, nil)}
	w.set(t, table.PromotionKey(others[0]), "opensAt", &types.AttributeValueMemberS{Value: "then"})
	w.set(t, table.DrawKey(others[1]), "closedAt", &types.AttributeValueMemberS{Value: "then"})
	w.clock.Set(cutoff.Add(after))
	drawer := w.drawer(w.store)
	require.NoError(t, drawer.Pass(t.Context()))
	require.Equal(t, promotion.DrawRoot, w.lottery(t).Draw.Phase)
	require.Equal(t, 2, w.figures.last.Failing)
	require.Less(t, w.figures.last.Late, time.Hour)
	_, found, err := w.store.Lottery(t.Context(), others[0])
	require.True(t, found)
	require.ErrorIs(t, err, draw.ErrUnreadable)

	w.set(t, table.PromotionKey(others[0]), "opensAt", &types.AttributeValueMemberN{Value: "1"})
	tx := w.store.Begin()
	tx.Delete(0, table.DrawKey(others[1]), table.Present())
	require.NoError(t, tx.Commit(t.Context()))
	w.clock.Advance(time.Minute)
	require.NoError(t, drawer.Pass(t.Context()))
	require.Zero(t, w.figures.last.Failing)
}

// exclude ends n requests without an entry and returns their ids and the keys of their exclusions.
func (w *environment) exclude(t *testing.T, n int) (ids []string, keys []pkgdynamo.Item) {
	t.Helper()
	for range n {
		r := w.received(t)
		w.change(t, r.Failed(w.store.Millis(), promotion.FailedWorker, promotion.Failure{Code: "X"}))
		ids = append(ids, r.RequestID)
		keys = append(keys, table.Key(table.ExclusionPartition(w.event), r.RequestID))
	}
	return ids, keys
}

// set replaces an attribute, and removes it if v is nil.
func (w *environment) set(t *testing.T, key pkgdynamo.Item, name string, v types.AttributeValue) {
	t.Helper()
	in := &awsdynamo.UpdateItemInput{
		TableName: &w.store.Table, Key: key, UpdateExpression: aws.String("REMOVE #name"), ExpressionAttributeNames: map[string]string{"#name": name},
	}
	if v != nil {
		in.UpdateExpression, in.ExpressionAttributeValues = aws.String("SET #name = :v"), pkgdynamo.Item{":v": v}
	}
	_, err := w.db.UpdateItem(t.Context(), in)
	require.NoError(t, err)
}

// An unreadable exclusion gets its reason from its request, and does not stop the draw. If the
// request is unreadable too, the reason says that.
func TestUnreadableExclusions(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	ids, keys := w.exclude(t, 4)
	w.set(t, keys[0], "reason", &types.AttributeValueMemberN{Value: "7"})
	w.set(t, keys[1], "reason", nil)
	w.set(t, keys[2], "at", &types.AttributeValueMemberM{Value: pkgdynamo.Item{}})
	w.spoil(t, ids[2])
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	require.Equal(t, int64(4), w.verify(t).Statement.ExcludedCount)
	excluded, err := w.store.Exclusions(t.Context(), w.event)
	require.NoError(t, err)
	reasons := map[string]string{}
	for _, e := range excluded {
		reasons[e.RequestID] = e.Reason
	}
	require.Equal(t, map[string]string{ids[0]: "FAILED_WORKER", ids[1]: "FAILED_WORKER", ids[2]: "FAILED_SERDE", ids[3]: "FAILED_WORKER"}, reasons)
	w.pass(t, round)
	require.Equal(t, promotion.DrawSettled, w.pass(t, settles))
	require.True(t, w.verify(t).Complete)
}

// Exclusions that were signed are never written again.
func TestExclusionsAreNotMendedAfterTheStatement(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	_, keys := w.exclude(t, 1)
	require.Equal(t, promotion.DrawRoot, w.pass(t, after))
	w.set(t, keys[0], "reason", nil)
	_, err := w.store.Exclusions(t.Context(), w.event)
	require.ErrorIs(t, err, draw.ErrChanged)
}

// If a request is both excluded and an entry, no statement is made, and the error has its id.
func TestExcludedEntry(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, nil)
	w.enter(t, 2)
	e := promotion.Exclusion{EventID: w.event, RequestID: w.entries[0].RequestID}
	tx := w.store.Begin()
	tx.Put(0, table.ExclusionItem(&e), table.Absent())
	require.NoError(t, tx.Commit(t.Context()))
	w.clock.Set(cutoff.Add(after))
	require.NoError(t, w.drawer(w.store).Pass(t.Context()))
	require.Equal(t, 1, w.figures.last.Failing)
	require.Equal(t, promotion.DrawClosed, w.lottery(t).Draw.Phase)
	_, err := w.store.Exclusions(t.Context(), w.event)
	require.ErrorContains(t, err, e.RequestID)
}
