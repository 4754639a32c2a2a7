package rpc_test

import (
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/asyncevent"
	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
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
	require.Equal(t, asyncevent.Received, back.request(t, id).Status)
	w.clock.Advance(16 * time.Second) // the leases have ended
	require.NoError(t, back.sweeper.Sweep(t.Context()))
	require.Equal(t, asyncevent.Queued, back.request(t, id).Status)
	require.Len(t, w.bodies(t), 1)
}
