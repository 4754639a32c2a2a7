package strict_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest/strict"
	"urr.guru/pkg/telemetry/metricstest"
)

const name = "things"

func key(name string) dynamo.Key { return dynamo.Key{Name: name, Type: types.ScalarAttributeTypeS} }

// open makes a table in memory with an index, behind rules with these limits.
func open(t *testing.T, l strict.Limits) (*strict.Rules, *dynamodb.Client) {
	t.Helper()
	rules := strict.New(l)
	client, err := strict.Open(t.Context(), rules.Serve(strict.NewMemory().Serve))
	require.NoError(t, err)
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, things(name)))
	return rules, client
}

func things(name string) dynamo.Table {
	return dynamo.Table{
		Name: name, Partition: key("PK"), Sort: key("SK"),
		Indexes: []dynamo.Index{{Name: "GSI1", Partition: key("XPK"), Sort: key("XSK")}},
	}
}

func thing(pk string) dynamo.Item {
	return dynamo.Item{"PK": dynamo.String(pk), "SK": dynamo.String("s")}
}

func put(ctx context.Context, client *dynamodb.Client, it dynamo.Item) error {
	_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: aws.String(name), Item: it}, dynamo.NoRetry)
	return err
}

func transactPut(ctx context.Context, client *dynamodb.Client, it dynamo.Item) error {
	_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: aws.String(name), Item: it}},
	}}, dynamo.NoRetry)
	return err
}

func get(consistent bool) func(context.Context, *dynamodb.Client, dynamo.Item) error {
	return func(ctx context.Context, client *dynamodb.Client, it dynamo.Item) error {
		_, err := client.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: aws.String(name), Key: dynamo.Item{"PK": it["PK"], "SK": it["SK"]}, ConsistentRead: &consistent,
		}, dynamo.NoRetry)
		return err
	}
}

// A partition accepts a second's units at once, and then as many each second.
func TestUnitsOfAPartition(t *testing.T) {
	t.Parallel()
	same := func(int) dynamo.Item { return thing("a") }
	indexed := func(i int) dynamo.Item {
		it := thing(fmt.Sprint(i))
		it["XPK"], it["XSK"] = dynamo.String("all"), dynamo.String(fmt.Sprint(i))
		return it
	}
	for what, tc := range map[string]struct {
		fraction float64
		call     func(context.Context, *dynamodb.Client, dynamo.Item) error
		item     func(i int) dynamo.Item
		second   int // calls in a second
	}{
		"writes":             {1, put, same, 1000},
		"a tenth":            {0.1, put, same, 100},
		"transactions":       {0.1, transactPut, same, 50},
		"consistent reads":   {0.1, get(true), same, 300},
		"eventual reads":     {0.1, get(false), same, 600},
		"a key of the index": {0.1, put, indexed, 100},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rules, client := open(t, strict.Limits{Partitions: 1000, Fraction: tc.fraction, NoDelay: true})
				n := 0
				accepted := func() (calls int) {
					for tc.call(t.Context(), client, tc.item(n)) == nil {
						n, calls = n+1, calls+1
					}
					return calls
				}
				require.Equal(t, tc.second, accepted())
				require.True(t, dynamo.Throttled(tc.call(t.Context(), client, tc.item(n))))
				require.Zero(t, accepted())
				time.Sleep(time.Second)
				require.Equal(t, tc.second, accepted())
				require.NotZero(t, rules.Counts().Throttled)
			})
		})
	}
}

// A change of an index's key is two writes of the index, and one of other attributes is one.
func TestIndexWrites(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules, client := open(t, strict.Limits{NoDelay: true})
		set := func(expression, condition string) (units float64) {
			before := rules.Counts().Writes
			_, _ = client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: aws.String(name), Key: thing("a"), UpdateExpression: &expression, ConditionExpression: &condition,
				ExpressionAttributeValues: dynamo.Item{":v": dynamo.String(expression)},
			}}}}, dynamo.NoRetry)
			return rules.Counts().Writes - before
		}
		it := thing("a")
		it["XPK"], it["XSK"] = dynamo.String("x"), dynamo.String("1")
		require.NoError(t, put(t.Context(), client, it))
		require.InDelta(t, 2, rules.Counts().Writes, 0, "the table and the index")
		require.InDelta(t, 2+1, set("SET plain = :v", "attribute_exists(PK)"), 0)
		require.InDelta(t, 2+2, set("SET XSK = :v", "attribute_exists(PK)"), 0)
		require.InDelta(t, 2+1, set("SET XSK = :v", "attribute_exists(PK)"), 0, "it is equal")
		_, err := client.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String(name), Key: thing("a")})
		require.NoError(t, err)
		require.InDelta(t, 2, set("SET plain = :v", "attribute_not_exists(PK)"), 0, "it is not in the index")
	})
}

// A throttled transaction takes no units of the partitions that would have had some.
func TestThrottledTransactionsTakeNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules, client := open(t, strict.Limits{Partitions: 1000, NoDelay: true})
		for range 1000 {
			require.NoError(t, put(t.Context(), client, thing("full")))
		}
		both := func() error {
			_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: aws.String(name), Item: thing("free")}},
				{Put: &types.Put{TableName: aws.String(name), Item: thing("full")}},
			}}, dynamo.NoRetry)
			return err
		}
		require.True(t, dynamo.Throttled(both()))
		require.InDelta(t, 1000, rules.Counts().Writes, 0)
		time.Sleep(2 * time.Millisecond)
		require.NoError(t, both())
		require.InDelta(t, 1000+2*2, rules.Counts().Writes, 0)
	})
}

// While a transaction runs, its items refuse other transactions and plain writes, but no reads.
func TestTransactionsHoldTheirItems(t *testing.T) {
	t.Parallel()
	insert := func(ctx context.Context, client *dynamodb.Client, it dynamo.Item) error {
		return dynamo.InsertNew(ctx, client, name, []dynamo.Item{it})[0]
	}
	batch := func(ctx context.Context, client *dynamodb.Client, it dynamo.Item) error {
		out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
			name: {{PutRequest: &types.PutRequest{Item: it}}, {PutRequest: &types.PutRequest{Item: thing("free")}}},
		}}, dynamo.NoRetry)
		if err == nil && len(out.UnprocessedItems[name]) > 0 {
			return fmt.Errorf("%d unprocessed", len(out.UnprocessedItems[name]))
		}
		return err
	}
	for what, tc := range map[string]struct {
		call func(context.Context, *dynamodb.Client, dynamo.Item) error
		want string
	}{
		"transaction": {transactPut, "item 0: TransactionConflict"},
		"put":         {put, "TransactionConflictException"},
		"statement":   {insert, "TransactionConflict"},
		"batch":       {batch, "1 unprocessed"},
		"read":        {get(true), "<nil>"},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				rules, client := open(t, strict.Limits{Partitions: 8})
				var work sync.WaitGroup
				work.Go(func() {
					_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
						{Put: &types.Put{TableName: aws.String(name), Item: thing("put")}},
						{ConditionCheck: &types.ConditionCheck{
							TableName: aws.String(name), Key: thing("checked"), ConditionExpression: aws.String("attribute_not_exists(PK)"),
						}},
					}})
					if err != nil {
						t.Error(err)
					}
				})
				synctest.Wait() // the transaction waits for its delay
				for _, pk := range []string{"put", "checked"} {
					work.Go(func() {
						err := tc.call(t.Context(), client, thing(pk))
						got := fmt.Sprint(err)
						if canceled, ok := dynamo.Canceled(err); ok {
							got = canceled.Error()
						}
						if !strings.Contains(got, tc.want) {
							t.Errorf("%s of the item %s: %v", what, pk, err)
						}
					})
				}
				work.Wait()
				if what != "read" {
					require.Equal(t, 2, rules.Counts().Conflicts)
				}
				require.NoError(t, put(t.Context(), client, thing("put")), "the transaction has ended")
			})
		})
	}
}

// Items that a batch may not read or write stay unprocessed, and are read or written later.
func TestBatchesAreThrottledByTheItem(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rules, client := open(t, strict.Limits{Partitions: 4})
		var items, keys []dynamo.Item
		for i := range 8000 {
			it := thing(fmt.Sprint(i))
			items, keys = append(items, it), append(keys, it)
		}
		var work sync.WaitGroup
		for i := range 20 {
			work.Go(func() {
				part := items[i*400 : (i+1)*400]
				for len(part) > 0 && dynamo.BatchPut(t.Context(), client, name, part) != nil { // after 6 tries
				}
			})
		}
		work.Wait()
		require.InDelta(t, 8000, rules.Counts().Writes, 8000, "some were written twice")
		require.NotZero(t, rules.Counts().Throttled)
		time.Sleep(time.Second)
		found, err := dynamo.BatchGet(t.Context(), client, name, keys[:2000])
		require.NoError(t, err)
		require.Len(t, found, 2000)
	})
}

// Processes count what a table refuses, by the reason. The test is not parallel, since all tests
// share the counters.
func TestRefusedIsCounted(t *testing.T) { //nolint:paralleltest // see above
	synctest.Test(t, func(t *testing.T) {
		rules, client := open(t, strict.Limits{Partitions: 8, Fraction: 0.01})
		counted := func(reason string) (sum float64) {
			sum, _ = metricstest.MetricSum(t, "urr_dynamodb_refused_total", map[string]string{"table": name, "reason": reason})
			return sum
		}
		conflicts, throttled := counted("conflict"), counted("throttled")
		it := thing("counted")
		it["large"] = dynamo.String(strings.Repeat("x", 1500)) // 2 units
		var work sync.WaitGroup
		work.Go(func() {
			if err := transactPut(t.Context(), client, it); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // the transaction holds the item
		require.Error(t, put(t.Context(), client, it))
		for _, call := range []func(context.Context, *dynamodb.Client, dynamo.Item) error{put, transactPut, get(true)} {
			for range 20 {
				work.Go(func() { _ = call(t.Context(), client, it) }) // most fail
			}
		}
		work.Wait()
		require.Len(t, dynamo.InsertNew(t.Context(), client, name, []dynamo.Item{thing("counted"), thing("free")}), 2)
		counts := rules.Counts()
		require.NotZero(t, counts.Conflicts)
		require.NotZero(t, counts.Throttled)
		require.InDelta(t, counts.Conflicts, counted("conflict")-conflicts, 0)
		require.InDelta(t, counts.Throttled, counted("throttled")-throttled, 0)
	})
}
