package settle_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/services/worker/internal/settle"
)

// lastPoll is a queue that brings messages after its receiver was stopped.
type lastPoll struct {
	*desk

	stop  func()
	batch []promotion.Delivery
}

func (q *lastPoll) Receive(context.Context) ([]promotion.Delivery, error) {
	q.stop()
	return q.batch, nil
}

// A worker that stops releases what its last poll brings: hidden messages stop their group for
// everybody.
func TestStopReleasesWhatThePollBrings(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	batch := w.deliveries(w.accept(t, 3))
	ctx, stop := context.WithCancel(t.Context())
	live := &lastPoll{desk: &desk{}, stop: stop, batch: batch}
	settler := settle.New(w.open(dynamotest.Hook{}), live, &desk{}, settleOptions(w), slog.New(slog.DiscardHandler))
	require.NoError(t, settler.Run(1)(ctx))
	require.Equal(t, w.sent, live.released)
	require.Empty(t, live.deleted)
	require.Equal(t, []promotion.Status{promotion.Received, promotion.Received, promotion.Received}, w.statuses(t))
}
