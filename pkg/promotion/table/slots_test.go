package table_test

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/dynamo/dynamotest/strict"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/telemetry/metricstest"
	"urr.guru/pkg/testkit"
)

// counted returns the partitions of figures that a transaction writes.
func counted(in any) (pks []string) {
	tx, ok := in.(*dynamodb.TransactWriteItemsInput)
	if !ok {
		return nil
	}
	for _, it := range tx.TransactItems {
		if it.Update == nil {
			continue
		}
		if pk, ok := it.Update.Key[table.PK].(*types.AttributeValueMemberS); ok && it.Update.Key[table.SK].(*types.AttributeValueMemberS).Value == "COUNTS" {
			pks = append(pks, pk.Value)
		}
	}
	return pks
}

// Concurrent transactions of a process, and those of several processes, write different items of
// the figures. One after another they write the same item.
func TestWritersHaveTheirSlots(t *testing.T) {
	t.Parallel()
	name, plain := newTable(t)
	clock := testkit.NewClock(time.UnixMilli(now))
	var mu sync.Mutex
	var held sync.WaitGroup
	var pks []string
	client := dynamodb.New(plain.Options(), dynamotest.Hook{Before: func(in any) error {
		if at := counted(in); len(at) > 0 {
			mu.Lock()
			pks = append(pks, at...)
			mu.Unlock()
			held.Done()
			held.Wait() // all at the same time
		}
		return nil
	}}.Options)
	process := func() table.Store {
		leases := dynamo.Leases{Client: plain, Table: name, Owner: uuid.NewString(), Now: clock.Now}
		store := table.NewStore(leases)
		store.Client = client
		return store
	}
	write := func(stores ...table.Store) []string {
		pks = nil
		held.Add(len(stores))
		var work sync.WaitGroup
		for _, s := range stores {
			work.Go(func() {
				r := promotion.NewRequest(demo(), uuid.NewString(), "ann", now)
				tx := s.Begin()
				tx.Create(0, r.Created())
				if err := tx.Commit(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		work.Wait()
		slices.Sort(pks)
		return pks
	}
	a, b := process(), process()
	require.Equal(t, []string{"COUNTS#demo#00"}, write(a))
	require.Equal(t, []string{"COUNTS#demo#00", "COUNTS#demo#01", "COUNTS#demo#02"}, write(a, a, a))
	require.Equal(t, []string{"COUNTS#demo#00", "COUNTS#demo#04"}, write(a, b))
	clock.Advance(59 * time.Second)
	require.Equal(t, []string{"COUNTS#demo#04"}, write(b), "renewed")
	clock.Advance(30 * time.Second)
	require.Equal(t, []string{"COUNTS#demo#00"}, write(process()), "the lease of the first has ended")
	require.Equal(t, []string{"COUNTS#demo#08"}, write(a), "so it takes another")
	counts, err := a.Counts(t.Context(), "demo")
	require.NoError(t, err)
	require.Equal(t, int64(1+3+2+1+1+1), counts.Accepted)
}

// newProcesses makes the stores of processes that share a table in memory, behind strict rules.
func newProcesses(t *testing.T, n int) (rules *strict.Rules, stores []table.Store) {
	t.Helper()
	rules = strict.New(strict.Limits{Partitions: 1000})
	client, err := strict.Open(t.Context(), rules.Serve(strict.NewMemory().Serve))
	require.NoError(t, err)
	cfg := dynamo.Config{Prefix: "test"}
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, table.Table(cfg)))
	for i := range n {
		stores = append(stores, table.NewStore(dynamo.Leases{
			Client: client, Table: cfg.Table(table.TableName), Owner: strconv.Itoa(i), Now: time.Now,
		}))
	}
	return rules, stores
}

// create writes a request to each of these promotions in one transaction.
func create(ctx context.Context, s table.Store, events ...string) error {
	tx := s.Begin()
	for _, event := range events {
		p := demo()
		p.EventID, p.Shards = event, 16
		r := promotion.NewRequest(p, uuid.NewString(), uuid.NewString(), s.Millis())
		tx.Create(0, r.Created())
	}
	return tx.Commit(ctx)
}

// mustCreate is create for goroutines, which may not end the test.
func mustCreate(t *testing.T, s table.Store, events ...string) {
	t.Helper()
	if err := create(t.Context(), s, events...); err != nil {
		t.Error(err)
	}
}

// More transactions than slots wait for each other, and do not conflict. One that writes figures of
// several events waits for all of them, and others do not overtake it for ever.
func TestWritersWaitForASlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules, stores := newProcesses(t, 2)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		var work sync.WaitGroup
		var both int
		for _, s := range stores {
			for _, events := range [][]string{{"a"}, {"a"}, {"a"}, {"a"}, {"a"}, {"b"}, {"b"}, {"b"}, {"b"}, {"b"}} {
				work.Go(func() {
					for ctx.Err() == nil {
						mustCreate(t, s, events...)
					}
				})
			}
		}
		work.Go(func() {
			for ctx.Err() == nil {
				mustCreate(t, stores[0], "a", "b")
				both++
			}
		})
		work.Wait()
		require.Zero(t, rules.Counts().Conflicts)
		require.Greater(t, both, 20, "a turn and its own call take 15 ms each, at most")
		counts, err := stores[1].Counts(t.Context(), "a")
		require.NoError(t, err)
		require.Greater(t, counts.Accepted, int64(800), "of 8 slots for 2 s, with 10 ms a call")
	})
}

// A transaction that gets no slot in time writes nothing, and keeps no slot.
func TestATransactionWaitsUntilItsDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		_, stores := newProcesses(t, 1)
		s := stores[0]
		require.NoError(t, create(t.Context(), s, "a"), "leases the block")
		var work sync.WaitGroup
		for range 4 {
			work.Go(func() { mustCreate(t, s, "a") })
		}
		synctest.Wait() // all four slots are in use
		ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
		defer stop()
		require.ErrorIs(t, create(ctx, s, "a", "b"), context.DeadlineExceeded)
		work.Wait()
		require.NoError(t, create(t.Context(), s, "a", "b"))
		counts, err := s.Counts(t.Context(), "a")
		require.NoError(t, err)
		require.Equal(t, int64(6), counts.Accepted)
	})
}

// Each of 25 processes has a block of its own. Further ones share, and each with another process,
// until a block is free. The test is not parallel, since all tests share the gauge.
func TestFurtherProcessesShareTheLeastUsedBlocks(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		rules, stores := newProcesses(t, 27)
		shared := func() float64 {
			value, ok := metricstest.MetricSum(t, "urr_requests_slots_shared", nil)
			require.True(t, ok)
			return value
		}
		for _, s := range stores[:25] {
			require.NoError(t, create(t.Context(), s, "a"))
		}
		require.Zero(t, shared())
		for _, s := range stores[25:] {
			require.NoError(t, create(t.Context(), s, "a"))
			require.InDelta(t, 1, shared(), 0)
		}
		together := func(stores ...table.Store) (conflicts int) {
			before := rules.Counts().Conflicts
			var work sync.WaitGroup
			for _, s := range stores {
				work.Go(func() { mustCreate(t, s, "a") })
			}
			work.Wait()
			return rules.Counts().Conflicts - before
		}
		require.Zero(t, together(stores[:25]...))
		require.Zero(t, together(stores[25:]...), "they share different blocks")
		require.NotZero(t, together(stores[0], stores[25]))

		time.Sleep(40 * time.Second)
		for _, s := range stores[1:] { // the first has ended
			require.NoError(t, create(t.Context(), s, "a"))
		}
		time.Sleep(40 * time.Second)
		require.NoError(t, create(t.Context(), stores[25], "a"))
		require.Zero(t, shared())
		require.Zero(t, together(stores[1:26]...))
	})
}

// The groups of a lottery do not share the write units of a partition.
func TestGroupsOfALotteryHaveTheirOwnUnits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules, stores := newProcesses(t, 1)
		groups := map[string]promotion.Request{}
		for len(groups) < len(promotion.LotteryGroups()) {
			id := uuid.NewString()
			groups[promotion.LotteryGroup(id)] = promotion.Request{EventID: "demo", RequestID: id}
		}
		var work sync.WaitGroup
		for _, r := range groups {
			work.Go(func() {
				for i := range 100 {
					tx := stores[0].Begin()
					tx.SetSentAt(&r, int64(i+1))
					if err := tx.Commit(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		work.Wait() // 6,400 transactions in about a second; those of one partition take 13 s
		require.Zero(t, rules.Counts().Throttled)
	})
}

// The winners of a first-come promotion can be read from any place on.
func TestWinnersBehindAPlace(t *testing.T) {
	t.Parallel()
	name, client := newTable(t)
	store := newStore(client, name)
	var place int64
	for _, n := range []int{1, 1, 90, 40, 1} {
		tx := store.Begin()
		for i := range n {
			place++
			r := promotion.NewRequest(demo(), uuid.NewString(), "ann", now)
			created := store.Begin()
			created.Create(0, r.Created())
			require.NoError(t, created.Commit(t.Context()))
			require.True(t, tx.Settle(i, r.Won(now, place, promotion.Turn{SequenceNumber: "1", Member: i})))
		}
		require.NoError(t, tx.Commit(t.Context()))
	}
	for _, after := range []int64{0, 1, 2, 50, 91, 92, 131, 132, 133} {
		var last int64
		for i, it := range query(t, client, name, table.WinnersBehind("demo", after)) {
			winners, first, err := table.DecodeFirstCome(it)
			require.NoError(t, err)
			if i == 0 {
				require.LessOrEqual(t, first, after+1, "none is left out")
			} else {
				require.Equal(t, last+1, first, "without gaps")
			}
			last = first + int64(len(winners)) - 1
		}
		require.Equal(t, place, last)
	}
}
