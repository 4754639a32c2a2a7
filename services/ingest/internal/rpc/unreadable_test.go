package rpc_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// corruptAttribute replaces an attribute of an item by one of another type.
func (w *environment) corruptAttribute(t *testing.T, key pkgdynamo.Item, name string) {
	t.Helper()
	_, err := w.db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName: aws.String(w.table()), Key: key, UpdateExpression: aws.String("SET #name = :bytes"),
		ExpressionAttributeNames:  map[string]string{"#name": name},
		ExpressionAttributeValues: map[string]types.AttributeValue{":bytes": &types.AttributeValueMemberB{Value: []byte{1}}},
	})
	require.NoError(t, err)
}

// Unreadable items delay no other items, and lists leave them out. The sweeper sends a request
// again if its marker is unreadable, and ends an unreadable request whose message nobody receives.
func TestUnreadableItems(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	unmarked, broken := r.applied(t, event, "ann").GetRequestId(), r.applied(t, event, "bob").GetRequestId()
	w.bodies(t)
	first := r.request(t, unmarked)
	m := promotion.MarkerOf(&first, 0)
	w.corruptAttribute(t, table.MarkerKey(&m), "eventId")
	w.corruptAttribute(t, table.RequestKey(broken), "attempts")

	mine, err := r.ListMyRequests(t.Context(), &ingestv1.ListMyRequestsRequest{Caller: user("bob")})
	require.NoError(t, err)
	require.Empty(t, mine.GetItems())

	w.clock.Advance(time.Minute)
	require.NoError(t, r.sweeper.Sweep(t.Context()))
	require.Len(t, w.ofType(t, "MARKER"), 2)
	for _, it := range w.ofType(t, "MARKER") {
		_, err := table.DecodeMarker(it)
		require.NoError(t, err, "it is written anew")
	}
	w.clock.Advance(10 * time.Minute)
	for range 2 {
		require.NoError(t, r.sweeper.Sweep(t.Context()))
	}
	require.Len(t, w.ofType(t, "MARKER"), 1)
	letters := w.ofType(t, "DEAD_LETTER")
	require.Len(t, letters, 1)
	l, err := table.DecodeDeadLetter(letters[0])
	require.NoError(t, err)
	require.Equal(t, broken, l.RequestID)
	counts, err := r.store.Figures(t.Context(), event)
	require.NoError(t, err)
	require.Equal(t, int64(1), counts.Unsettled())
}

// A user whose lock is unreadable is refused. Users who apply at the same time are accepted.
func TestUnreadableLockRefusesItsUserOnly(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	r := w.replica(t, options{})
	event := r.promotion(t)
	r.applied(t, event, "ann")
	w.corruptAttribute(t, table.LockKey(event, "ann"), "withdrawals")
	in := &ingestv1.ApplyRequest{}
	const ann, users = 40, 60 // after the applications that are stored in transactions of their own
	for i := range users {
		in.Items = append(in.Items, &ingestv1.ApplyItem{Caller: user(fmt.Sprint("u", i)), EventId: event})
	}
	in.Items[ann].Caller = user("ann")
	out, err := r.Apply(t.Context(), in)
	require.NoError(t, err)
	for i, result := range out.GetResults() {
		if i == ann {
			require.Equal(t, "UNAVAILABLE", result.GetProblem().GetReason())
		} else {
			require.Equal(t, "QUEUED", result.GetApplied().GetStatus())
		}
	}
}

// A capacity that cannot be read does not stop the sweeper, and a promotion that cannot be read is
// left out of the list.
func TestUnreadablePromotionStopsNoOther(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t)
	away, back := w.replica(t, options{sqsAddr: "127.0.0.1:1"}), w.replica(t, options{})
	broken, whole := back.promotion(t), back.promotion(t)
	away.applied(t, broken, "ann")
	waiting := away.applied(t, whole, "bob").GetRequestId()
	w.corruptAttribute(t, table.CapacityKey(broken), "capacityRemaining")
	w.corruptAttribute(t, table.PromotionKey(broken), "capacityTotal")
	w.clock.Advance(11 * time.Second)
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, waiting).Status)

	list := &ingestv1.ListPromotionsRequest{Limit: 1}
	var found []string
	for {
		page, err := back.ListPromotions(t.Context(), list)
		require.NoError(t, err)
		for _, p := range page.GetItems() {
			found = append(found, p.GetEventId())
		}
		if list.Cursor = page.GetNextCursor(); list.Cursor == "" {
			break
		}
	}
	require.Equal(t, []string{whole}, found)
}
