package settle_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/worker/internal/settle"
)

// If the store refuses a write for a reason that no request has caused, no attempt is counted. The
// messages stay hidden, so that they keep their order and do not become dead letters.
func TestRefusalIsNoRequestsFault(t *testing.T) {
	t.Parallel()
	refusal := func(code string) error {
		return &smithy.GenericAPIError{Code: code, Message: "refused", Fault: smithy.FaultClient}
	}
	read := func(in any) bool { _, ok := in.(*awsdynamo.BatchGetItemInput); return ok }
	write := func(in any) bool { _, ok := in.(*awsdynamo.TransactWriteItemsInput); return ok }
	for name, tc := range map[string]struct {
		of    func(any) bool
		fault error
	}{
		"no permission to read":  {read, refusal("AccessDeniedException")},
		"no permission to write": {write, refusal("AccessDeniedException")},
		"key disabled":           {read, refusal("KMSDisabledException")},
		"no table":               {read, &types.ResourceNotFoundException{}},
		"no table to write":      {write, &types.ResourceNotFoundException{}},
		"no credentials":         {read, errors.New("failed to refresh cached credentials")},
		"expired token":          {write, refusal("ExpiredTokenException")},
		"keys of another table":  {read, refusal("ValidationException")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, 2)
			batch := w.deliveries(w.accept(t, 3))
			var broken atomic.Bool
			broken.Store(true)
			worker := w.worker(dynamotest.Hook{Before: func(in any) error {
				if tc.of(in) && broken.Load() {
					return tc.fault
				}
				return nil
			}})
			require.ErrorIs(t, worker.Handle(t.Context(), batch), settle.ErrStoreUnavailable)
			require.Equal(t, w.sent, worker.queue.released)
			require.Equal(t, 10*time.Second, worker.queue.after, "hidden from the other receivers")
			require.Empty(t, worker.queue.deleted)
			require.ErrorIs(t, worker.HandleDead(t.Context(), batch), settle.ErrStoreUnavailable, "nor is one sent back behind the others")
			broken.Store(false)
			require.NoError(t, worker.Handle(t.Context(), batch))
			w.audit(t, 2)
			for _, id := range w.sent {
				require.Zero(t, w.request(t, id).Attempts)
			}
		})
	}
}

// An unreadable lock stops only its own request.
func TestUnreadableLock(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 1)
	batch := w.deliveries(w.accept(t, 3))
	w.set(t, table.LockKey(event, "u0"), "withdrawals", pkgdynamo.String("many"))
	worker := w.worker(dynamotest.Hook{})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.Len(t, worker.dead.forwarded, 1)
	require.NoError(t, worker.HandleDead(t.Context(), worker.dead.forwarded))
	require.Equal(t, []promotion.Status{promotion.FailedFinal, s, r}, w.statuses(t))
	require.Equal(t, promotion.FailedSerde, w.request(t, w.sent[0]).ResultCode)
}

// The requests to a promotion with an unreadable capacity wait, and keep their order.
func TestUnreadablePromotion(t *testing.T) {
	t.Parallel()
	w := newEnvironment(t, 1)
	batch := w.deliveries(w.accept(t, 3))
	w.set(t, table.CapacityKey(event), "capacityRemaining", pkgdynamo.String("one"))
	worker := w.worker(dynamotest.Hook{})
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.Equal(t, 5*time.Minute, worker.queue.after)
	require.Empty(t, worker.dead.forwarded)
	require.NoError(t, worker.HandleDead(t.Context(), batch), "SQS has moved them")
	require.Empty(t, worker.queue.sent)
	w.set(t, table.CapacityKey(event), "capacityRemaining", pkgdynamo.Number(1))
	require.NoError(t, worker.Handle(t.Context(), batch))
	require.Equal(t, []promotion.Status{s, r, r}, w.statuses(t))
}

// A throttled partition delays its promotion by some milliseconds, not by a second.
func TestThrottlingIsShort(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]error{
		"reads": &types.ProvisionedThroughputExceededException{},
		"writes": &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{
			{Code: new("ThrottlingError")},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnvironment(t, 2)
			batch := w.deliveries(w.accept(t, 3))
			var left atomic.Int64
			left.Store(12)
			worker := w.worker(dynamotest.Hook{Before: func(in any) error {
				if _, write := in.(*awsdynamo.TransactWriteItemsInput); write == (name == "writes") && left.Add(-1) >= 0 {
					return fault
				}
				return nil
			}})
			require.NoError(t, worker.Handle(t.Context(), batch))
			require.Empty(t, worker.queue.released)
			w.audit(t, 2)
		})
	}
}
