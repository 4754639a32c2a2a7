package table_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/telemetry/metricstest"
)

func newTable(t *testing.T) (name string, client *dynamodb.Client) {
	t.Helper()
	cfg, client := dynamotest.Tables(t)
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, table.Table(cfg)))
	return cfg.Table(table.TableName), client
}

// newStore returns the store of another process.
func newStore(client *dynamodb.Client, name string) table.Store {
	clock := func() time.Time { return time.UnixMilli(now) }
	return table.NewStore(dynamo.Leases{Client: client, Table: name, Owner: uuid.NewString(), Now: clock})
}

func read(t *testing.T, client *dynamodb.Client, name, id string) promotion.Request {
	t.Helper()
	items, err := table.Store{Client: client, Table: name}.Read(t.Context(), table.RequestKey(id))
	require.NoError(t, err)
	r, err := table.DecodeRequest(items.Get(table.RequestKey(id)))
	require.NoError(t, err)
	return r
}

func query(t *testing.T, client *dynamodb.Client, name string, p table.PartitionQuery) []dynamo.Item {
	t.Helper()
	items, more, err := table.Store{Client: client, Table: name}.Query(t.Context(), p)
	require.NoError(t, err)
	require.False(t, more)
	return items
}

// During its life a request leaves only these items: a marker until it is processed, its log in
// order, one announcement for each end, and the figures.
func TestLifeOfARequest(t *testing.T) {
	t.Parallel()
	name, client := newTable(t)
	store := newStore(client, name)
	commit := func(write func(*table.Tx)) {
		t.Helper()
		tx := store.Begin()
		write(tx)
		require.NoError(t, tx.Commit(t.Context()))
	}
	change := func(c promotion.Change) {
		t.Helper()
		commit(func(tx *table.Tx) { tx.Change(0, c) })
	}
	r := request()
	marker := func() dynamo.Item {
		t.Helper()
		current := read(t, client, name, id)
		m := promotion.MarkerOf(&current, 0)
		items, err := table.Store{Client: client, Table: name}.Read(t.Context(), table.MarkerKey(&m))
		require.NoError(t, err)
		return items.Get(table.MarkerKey(&m))
	}
	counts := func() promotion.Counts {
		t.Helper()
		sum, err := table.Store{Client: client, Table: name}.Counts(t.Context(), "demo")
		require.NoError(t, err)
		return sum
	}
	commit(func(tx *table.Tx) { tx.Create(0, r.Created()) })
	require.NotNil(t, marker())
	require.Equal(t, r, read(t, client, name, id))
	require.Equal(t, int64(1), counts().Unsettled())

	change(r.Queued(now))
	queued := read(t, client, name, id)
	require.Equal(t, promotion.Queued, queued.Status)
	change(queued.Failed(now, promotion.FailedWorker, promotion.Failure{Class: promotion.Retryable, Code: "X", Message: "m"}))
	require.Nil(t, marker())
	require.Zero(t, counts().Unsettled())

	failed := read(t, client, name, id)
	change(failed.Redriven(now))
	require.NotNil(t, marker(), "of the new generation")
	require.Equal(t, int64(1), counts().Unsettled())
	redriven := read(t, client, name, id)
	change(redriven.Requeued())
	require.Equal(t, int64(2), read(t, client, name, id).Gen)
	require.NotNil(t, marker())
	requeued := read(t, client, name, id)
	change(requeued.Settled(now, promotion.Succeeded, promotion.Success, promotion.Turn{SequenceNumber: "1"}))
	require.Nil(t, marker())
	require.Equal(t, promotion.Counts{Accepted: 1, Results: map[promotion.ResultCode]int64{promotion.Success: 1, promotion.FailedWorker: 0}}, counts())

	requireLogInOrder(t, client, name, id, promotion.Succeeded)
	markers, announced := pending(t, client, name)
	require.Zero(t, markers)
	require.Equal(t, 2, announced)
}

// requireLogInOrder checks that each entry of a request's log begins with the status of the one
// before, and that the last one ends with the given status.
func requireLogInOrder(t *testing.T, client *dynamodb.Client, name, id string, status promotion.Status) {
	t.Helper()
	var last promotion.Status
	for _, it := range query(t, client, name, table.PartitionQuery{PK: "REQ#" + id, Prefix: table.LogPrefix}) {
		l, err := table.DecodeLog(it)
		require.NoError(t, err)
		require.Equal(t, last, l.From)
		last = l.To
	}
	require.Equal(t, status, last)
}

// pending counts the markers and announcements of a table.
func pending(t *testing.T, client *dynamodb.Client, name string) (markers, announced int) {
	t.Helper()
	for i := range promotion.Partitions {
		markers += len(query(t, client, name, table.PartitionQuery{PK: table.MarkerPartition(i)}))
		announced += len(query(t, client, name, table.PartitionQuery{PK: table.OutboxPartition(i)}))
	}
	return markers, announced
}

// Of concurrent changes of one state exactly one is written.
func TestOnlyOneChangeOfAStateIsWritten(t *testing.T) {
	t.Parallel()
	name, client := newTable(t)
	store := newStore(client, name)
	r := request()
	created := store.Begin()
	created.Create(0, r.Created())
	require.NoError(t, created.Commit(t.Context()))
	for what, c := range map[string]func(promotion.Request) promotion.Change{
		"attempts": func(r promotion.Request) promotion.Change { return r.Attempted(now, promotion.Failure{Code: "X"}) },
		"requeues": func(r promotion.Request) promotion.Change { return r.Requeued() },
		"ends": func(r promotion.Request) promotion.Change {
			return r.Settled(now, promotion.Rejected, promotion.RejectedCapacity, promotion.Turn{SequenceNumber: "1"})
		},
	} {
		before := read(t, client, name, id)
		if before.Status.Final() { // maps have no order: start again
			tx := store.Begin()
			tx.Put(0, table.RequestItem(&r), table.Condition{})
			require.NoError(t, tx.Commit(t.Context()))
			before = read(t, client, name, id)
		}
		var won atomic.Int64
		var work sync.WaitGroup
		for range 8 {
			work.Go(func() {
				tx := store.Begin()
				tx.Change(5, c(before))
				if err := tx.Commit(t.Context()); err == nil {
					won.Add(1)
				} else if canceled, ok := dynamo.Canceled(err); !ok || !canceled.Failed(0) || tx.Owner(0) != 5 {
					t.Errorf("%s: %v", what, err)
				}
			})
		}
		work.Wait()
		require.Equal(t, int64(1), won.Load(), what)
	}
}

// A transaction that conflicts with other writes in progress is sent again.
func TestConflictsAreRetried(t *testing.T) {
	t.Parallel()
	name, plain := newTable(t)
	var calls, conflicts atomic.Int64
	conflicts.Store(3)
	client := dynamodb.New(plain.Options(), dynamotest.Hook{Before: func(in any) error {
		if _, ok := in.(*dynamodb.TransactWriteItemsInput); ok && calls.Add(1) <= conflicts.Load() {
			return &types.TransactionCanceledException{CancellationReasons: []types.CancellationReason{{Code: aws.String("TransactionConflict")}}}
		}
		return nil
	}}.Options)
	store := newStore(client, name)
	create := func() error {
		r := promotion.NewRequest(demo(), uuid.NewString(), "ann", now)
		tx := store.Begin()
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
	name, client := newTable(t)
	store := newStore(client, name)
	table.StartMetrics()
	before := metricstest.ByLabel(t, "urr_requests_total", "status")
	require.Len(t, before, 6, "all begin at 0")
	commit := func(write func(*table.Tx)) error {
		tx := store.Begin()
		write(tx)
		return tx.Commit(t.Context())
	}
	r := promotion.NewRequest(demo(), uuid.NewString(), "ann", now)
	create := func(tx *table.Tx) { tx.Create(0, r.Created()) }
	require.NoError(t, commit(create))
	require.Error(t, commit(create), "it exists")
	settled := func(tx *table.Tx) {
		tx.Change(0, r.Settled(now, promotion.Succeeded, promotion.Success, promotion.Turn{SequenceNumber: "1"}))
	}
	require.NoError(t, commit(settled))
	require.Error(t, commit(settled), "it has changed")

	moved := map[string]float64{}
	for status, n := range metricstest.ByLabel(t, "urr_requests_total", "status") {
		moved[status] = n - before[status]
	}
	require.Equal(t, map[string]float64{"RECEIVED": 1, "QUEUED": 1, "PROCESSING": 1, "SUCCEEDED": 1, "REJECTED": 0, "FAILED_FINAL": 0}, moved)
}
