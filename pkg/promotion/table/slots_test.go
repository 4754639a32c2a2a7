package table_test

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/table"
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
		return table.Store{Client: client, Table: name, Now: clock.Now, Slots: table.NewSlots(leases)}
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
	require.Equal(t, []string{"COUNTS#demo#00", "COUNTS#demo#00", "COUNTS#demo#01", "COUNTS#demo#02", "COUNTS#demo#03"}, write(a, a, a, a, a), "harmless")
	clock.Advance(59 * time.Second)
	require.Equal(t, []string{"COUNTS#demo#04"}, write(b), "renewed")
	clock.Advance(30 * time.Second)
	require.Equal(t, []string{"COUNTS#demo#00"}, write(process()), "the lease of the first has ended")
	require.Equal(t, []string{"COUNTS#demo#08"}, write(a), "so it takes another")
	counts, err := a.Counts(t.Context(), "demo")
	require.NoError(t, err)
	require.Equal(t, int64(1+3+2+5+1+1+1), counts.Accepted)
}

// The winners of a first-come promotion can be read from any place on.
func TestWinnersBehindAPlace(t *testing.T) {
	t.Parallel()
	name, client := newTable(t)
	var place int64
	for _, n := range []int{1, 1, 90, 40, 1} {
		tx := table.NewTx(client, name, now)
		for i := range n {
			place++
			r := promotion.NewRequest(demo(), uuid.NewString(), "ann", now)
			created := table.NewTx(client, name, now)
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
