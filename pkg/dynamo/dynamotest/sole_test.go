package dynamotest_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
)

// Only partitions that a client of the test has written are read from the table.
func TestSole(t *testing.T) {
	t.Parallel()
	cfg, plain := dynamotest.Tables(t)
	name := cfg.Table("sole")
	key := func(name string) dynamo.Key { return dynamo.Key{Name: name, Type: types.ScalarAttributeTypeS} }
	require.NoError(t, dynamo.EnsureTable(t.Context(), plain, dynamo.Table{Name: name, Partition: key("PK"), Sort: key("SK")}))
	sole := dynamotest.SoleWriter(plain, "PK")
	queries := 0
	reader := dynamodb.New(sole.Options(), dynamotest.Hook{Before: func(any) error { queries++; return nil }}.Options)
	countItems := func(pk string) int {
		out, err := reader.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &name, ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("PK = :pk"),
			ExpressionAttributeValues: dynamo.Item{":pk": dynamo.String(pk)},
		})
		require.NoError(t, err)
		return len(out.Items)
	}
	require.Zero(t, countItems("a"))
	require.Zero(t, queries)

	_, err := plain.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item("a")})
	require.NoError(t, err)
	require.Zero(t, countItems("a"), "written by a client that is not to write")
	writers := writersOf(t, sole, name)
	for pk, write := range writers {
		require.NoError(t, write())
		require.Equal(t, 1, countItems(pk), pk)
	}
	require.Equal(t, len(writers), queries)
	_, err = sole.ExecuteStatement(t.Context(), &dynamodb.ExecuteStatementInput{Statement: aws.String(`INSERT INTO "` + name + `" VALUE {'PK': 'sql', 'SK': 's'}`)})
	require.NoError(t, err)
	require.Equal(t, 1, countItems("sql"), "whatever it was, all partitions are read")
}

func item(pk string) dynamo.Item {
	return dynamo.Item{"PK": dynamo.String(pk), "SK": dynamo.String("s")}
}

// writersOf returns a function for each way to write an item, keyed by the partition it writes.
func writersOf(t *testing.T, client *dynamodb.Client, table string) map[string]func() error {
	t.Helper()
	ctx := t.Context()
	return map[string]func() error{
		"put": func() error {
			_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &table, Item: item("put")})
			return err
		},
		"update": func() error {
			_, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: &table, Key: item("update")})
			return err
		},
		"update in a transaction": func() error {
			_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{{Update: &types.Update{
				TableName: &table, Key: item("update in a transaction"), UpdateExpression: aws.String("SET a = :a"),
				ExpressionAttributeValues: dynamo.Item{":a": dynamo.String("x")},
			}}}})
			return err
		},
		"transaction": func() error {
			_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
				{Put: &types.Put{TableName: &table, Item: item("transaction")}},
			}})
			return err
		},
		"batch": func() error {
			_, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
				table: {{PutRequest: &types.PutRequest{Item: item("batch")}}},
			}})
			return err
		},
	}
}
