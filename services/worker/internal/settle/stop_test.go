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

// lastPoll is a queue whose poll returns messages after the receiver was stopped.
type lastPoll struct {
	*fakeQueue

	stop  func()
	batch []promotion.Delivery
}

func (q *lastPoll) Receive(context.Context) ([]promotion.Delivery, error) {
	q.stop()
	return q.batch, nil
}

// A worker that stops releases the messages of its last poll, since hidden messages would block
// their group for all workers.
func TestStopReleasesWhatThePollBrings(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 5)
	batch := w.deliveries(w.accept(t, 3))
	ctx, stop := context.WithCancel(t.Context())
	live := &lastPoll{fakeQueue: &fakeQueue{}, stop: stop, batch: batch}
	settler := settle.New(w.open(dynamotest.Hook{}), live, &fakeQueue{}, settleOptions(w), slog.New(slog.DiscardHandler))
	require.NoError(t, settler.Run(1)(ctx))
	require.Equal(t, w.sent, live.released)
	require.Empty(t, live.deleted)
	require.Equal(t, []promotion.Status{promotion.Received, promotion.Received, promotion.Received}, w.statuses(t))
}
