package asyncevent_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/asyncevent"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/telemetry/metricstest"
)

func table(t *testing.T) (name string, client *dynamodb.Client) {
	t.Helper()
	cfg, client := dynamotest.Tables(t)
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, asyncevent.Table(cfg)))
	return cfg.Table(asyncevent.TableName), client
}

func read(t *testing.T, client *dynamodb.Client, table, id string) asyncevent.Request {
	t.Helper()
	items, err := asyncevent.Read(t.Context(), client, table, asyncevent.RequestKey(id))
	require.NoError(t, err)
	r, err := asyncevent.DecodeRequest(items.Get(asyncevent.RequestKey(id)))
	require.NoError(t, err)
	return r
}

func query(t *testing.T, client *dynamodb.Client, table string, p asyncevent.Partition) []dynamo.Item {
	t.Helper()
	items, more, err := p.Query(t.Context(), client, table)
	require.NoError(t, err)
	require.False(t, more)
	return items
}

// The life of a request leaves what it must, and nothing else: a marker until it is settled, its
// log in order, one announcement for each end, and the figures.
func TestLifeOfARequest(t *testing.T) {
	t.Parallel()
	table, client := table(t)
	commit := func(write func(*asyncevent.Tx)) {
		t.Helper()
		tx := asyncevent.NewTx(client, table, now)
		write(tx)
		require.NoError(t, tx.Commit(t.Context()))
	}
	change := func(c asyncevent.Change) {
		t.Helper()
		commit(func(tx *asyncevent.Tx) { tx.Change(0, c) })
	}
	r := request()
	marker := func() dynamo.Item {
		t.Helper()
		current := read(t, client, table, id)
		m := asyncevent.MarkerOf(&current, 0)
		items, err := asyncevent.Read(t.Context(), client, table, m.Key())
		require.NoError(t, err)
		return items.Get(m.Key())
	}
	counts := func() asyncevent.Counts {
		t.Helper()
		sum, err := asyncevent.DecodeCounts(query(t, client, table, asyncevent.Partition{PK: asyncevent.EventPartition("demo"), Prefix: asyncevent.CountsPrefix}))
		require.NoError(t, err)
		return sum
	}
	commit(func(tx *asyncevent.Tx) { tx.Create(0, r.Created()) })
	require.NotNil(t, marker())
	require.Equal(t, r, read(t, client, table, id))
	require.Equal(t, int64(1), counts().Unsettled())

	change(r.Queued(now))
	queued := read(t, client, table, id)
	require.Equal(t, asyncevent.Queued, queued.Status)
	change(queued.Failed(now, asyncevent.FailedWorker, asyncevent.Failure{Class: asyncevent.Retryable, Code: "X", Message: "m"}))
	require.Nil(t, marker())
	require.Zero(t, counts().Unsettled())

	failed := read(t, client, table, id)
	change(failed.Redriven(now))
	require.NotNil(t, marker(), "of the new generation")
	require.Equal(t, int64(1), counts().Unsettled())
	redriven := read(t, client, table, id)
	change(redriven.Requeued())
	require.Equal(t, int64(2), read(t, client, table, id).Gen)
	require.NotNil(t, marker())
	requeued := read(t, client, table, id)
	change(requeued.Settled(now, asyncevent.Succeeded, asyncevent.Success, "1"))
	require.Nil(t, marker())
	require.Equal(t, asyncevent.Counts{Accepted: 1, Results: map[asyncevent.ResultCode]int64{asyncevent.Success: 1, asyncevent.FailedWorker: 0}}, counts())

	requireLogInOrder(t, client, table, id, asyncevent.Succeeded)
	markers, announced := pending(t, client, table)
	require.Zero(t, markers)
	require.Equal(t, 2, announced)
}

// requireLogInOrder checks that each entry of a request's log begins with the status of the one
// before, and that the last has the status.
func requireLogInOrder(t *testing.T, client *dynamodb.Client, table, id string, status asyncevent.Status) {
	t.Helper()
	var last asyncevent.Status
	for _, it := range query(t, client, table, asyncevent.Partition{PK: "REQ#" + id, Prefix: asyncevent.LogPrefix}) {
		l, err := asyncevent.DecodeLog(it)
		require.NoError(t, err)
		require.Equal(t, last, l.From)
		last = l.To
	}
	require.Equal(t, status, last)
}

// pending counts the markers and announcements of a table.
func pending(t *testing.T, client *dynamodb.Client, table string) (markers, announced int) {
	t.Helper()
	for i := range asyncevent.Partitions {
		markers += len(query(t, client, table, asyncevent.Partition{PK: asyncevent.MarkerPartition(i)}))
		announced += len(query(t, client, table, asyncevent.Partition{PK: asyncevent.OutboxPartition(i)}))
	}
	return markers, announced
}

// Of concurrent changes of one state exactly one is written.
func TestOnlyOneChangeOfAStateIsWritten(t *testing.T) {
	t.Parallel()
	table, client := table(t)
	r := request()
	created := asyncevent.NewTx(client, table, now)
	created.Create(0, r.Created())
	require.NoError(t, created.Commit(t.Context()))
	for name, c := range map[string]func(asyncevent.Request) asyncevent.Change{
		"attempts": func(r asyncevent.Request) asyncevent.Change { return r.Attempted(now, asyncevent.Failure{Code: "X"}) },
		"requeues": func(r asyncevent.Request) asyncevent.Change { return r.Requeued() },
		"ends": func(r asyncevent.Request) asyncevent.Change {
			return r.Settled(now, asyncevent.Rejected, asyncevent.RejectedCapacity, "1")
		},
	} {
		before := read(t, client, table, id)
		if before.Status.Final() { // the order of a map: begin anew
			tx := asyncevent.NewTx(client, table, now)
			tx.Put(0, r.Item(), asyncevent.Condition{})
			require.NoError(t, tx.Commit(t.Context()))
			before = read(t, client, table, id)
		}
		var won atomic.Int64
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				tx := asyncevent.NewTx(client, table, now)
				tx.Change(5, c(before))
				if err := tx.Commit(t.Context()); err == nil {
					won.Add(1)
				} else if canceled, ok := dynamo.Canceled(err); !ok || !canceled.Failed(0) || tx.Owner(0) != 5 {
					t.Errorf("%s: %v", name, err)
				}
			})
		}
		work.Wait()
		require.Equal(t, int64(1), won.Load(), name)
	}
}

// Conflicts with other writes in progress decide nothing: the transaction is sent again.
func TestConflictsAreRetried(t *testing.T) {
	t.Parallel()
	table, plain := table(t)
	var calls, conflicts atomic.Int64
	conflicts.Store(3)
	client := dynamodb.New(plain.Options(), dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*dynamodb.TransactWriteItemsInput); ok && calls.Add(1) <= conflicts.Load() {
			return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		}
		return nil
	}}.Options)
	create := func() error {
		r := asyncevent.NewRequest(promotion(), uuid.NewString(), "ann", now)
		tx := asyncevent.NewTx(client, table, now)
		tx.Create(0, r.Created())
		return tx.Commit(t.Context())
	}
	require.NoError(t, create())
	require.Equal(t, int64(4), calls.Load())
	conflicts.Store(1 << 30)
	require.True(t, dynamo.Contended(create()), "not forever")
}

// Committed changes of the status are counted, and only those. The test is not parallel, since all
// tests share the counters.
func TestStatusesAreCounted(t *testing.T) { //nolint:paralleltest // see above
	table, client := table(t)
	asyncevent.StartMetrics()
	before := metricstest.ByLabel(t, "urr_requests_total", "status")
	require.Len(t, before, 6, "all begin at 0")
	commit := func(write func(*asyncevent.Tx)) error {
		tx := asyncevent.NewTx(client, table, now)
		write(tx)
		return tx.Commit(t.Context())
	}
	r := asyncevent.NewRequest(promotion(), uuid.NewString(), "ann", now)
	create := func(tx *asyncevent.Tx) { tx.Create(0, r.Created()) }
	require.NoError(t, commit(create))
	require.Error(t, commit(create), "it exists")
	settled := func(tx *asyncevent.Tx) { tx.Change(0, r.Settled(now, asyncevent.Succeeded, asyncevent.Success, "1")) }
	require.NoError(t, commit(settled))
	require.Error(t, commit(settled), "it has changed")

	moved := map[string]float64{}
	for status, n := range metricstest.ByLabel(t, "urr_requests_total", "status") {
		moved[status] = n - before[status]
	}
	require.Equal(t, map[string]float64{"RECEIVED": 1, "QUEUED": 1, "PROCESSING": 1, "SUCCEEDED": 1, "REJECTED": 0, "FAILED_FINAL": 0}, moved)
}
