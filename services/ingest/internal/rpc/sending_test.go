package rpc_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	commonv1 "urr.guru/proto/gen/urr/common/v1"
	ingestv1 "urr.guru/proto/gen/urr/ingest/v1"
)

// markersPut are the requests whose markers a transaction writes.
func markersPut(in *awsdynamo.TransactWriteItemsInput) (ids []string) {
	for _, it := range in.TransactItems {
		if it.Put == nil {
			continue
		}
		if d := (pkgdynamo.Reader{Item: it.Put.Item}); d.String("entityType") == "MARKER" {
			ids = append(ids, d.String("requestId"))
		}
	}
	return ids
}

// A request that the queue has taken does not fail, however long that cannot be recorded.
func TestTakenButNotRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	back := w.replica(t, options{})
	event := back.promotion(t)
	forgetful := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		tx, ok := in.(*awsdynamo.TransactWriteItemsInput)
		if ok && tx.TransactItems[0].Update != nil && len(markersPut(tx)) > 0 { // the record that it was sent
			return dynamotest.ErrConnReset
		}
		return nil
	}}})
	id := forgetful.applied(t, event, "ann").GetRequestId()
	w.clock.Advance(10 * time.Minute)
	require.Error(t, forgetful.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Received, back.request(t, id).Status)
	w.clock.Advance(16 * time.Second) // the leases have ended
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, promotion.Queued, back.request(t, id).Status)
	require.Len(t, w.bodies(t), 1)
}

// Applications with one Idempotency-Key at the same time all send the request; a transaction that
// records it names it once, so that those of others in it are recorded too.
func TestParallelRepeatsAreSentOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var twice atomic.Int64
	r := w.replica(t, options{dynamo: dynamotest.Hook{Before: func(in any) error {
		if tx, ok := in.(*awsdynamo.TransactWriteItemsInput); ok {
			seen := map[string]bool{}
			for _, id := range markersPut(tx) {
				if seen[id] {
					twice.Add(1)
				}
				seen[id] = true
			}
		}
		return nil
	}}})
	event := r.promotion(t)
	const users, repeats = 5, 20
	in := &ingestv1.ApplyRequest{}
	for i := range users * repeats {
		caller := &commonv1.Caller{UserId: fmt.Sprint("u", i%users), IdempotencyKey: "k"}
		in.Items = append(in.Items, &ingestv1.ApplyItem{Caller: caller, EventId: event})
	}
	out, err := r.Apply(t.Context(), in)
	require.NoError(t, err)
	for _, result := range out.GetResults() {
		require.False(t, result.GetApplied().GetDuplicate())
		require.Equal(t, promotion.Queued, r.request(t, result.GetApplied().GetRequestId()).Status)
	}
	require.Zero(t, twice.Load())
	require.Len(t, w.bodies(t), users)
}
