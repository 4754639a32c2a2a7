package strict_test

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/dynamo/dynamotest/strict"
)

// outcomeOf describes what a call returned: the items, or the code of its error.
func outcomeOf(err error, items ...dynamo.Item) string {
	var api smithy.APIError
	if canceled, ok := dynamo.Canceled(err); ok {
		return canceled.Error()
	}
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	var text strings.Builder
	for _, it := range items {
		for _, name := range slices.Sorted(maps.Keys(it)) {
			fmt.Fprintf(&text, "%s=%v ", name, reflect.ValueOf(it[name]).Elem().Field(0))
		}
		text.WriteString("; ")
	}
	return text.String()
}

// Memory answers as DynamoDB Local does.
func TestMemoryAnswersLikeDynamoDBLocal(t *testing.T) {
	t.Parallel()
	cfg, local := dynamotest.Tables(t)
	memory, err := strict.Open(t.Context(), strict.New(strict.Limits{NoDelay: true}).Serve(strict.NewMemory().Serve))
	require.NoError(t, err)
	name := cfg.Table("things")
	var results [2][]string
	for i, client := range []*dynamodb.Client{local, memory} {
		require.NoError(t, dynamo.EnsureTable(t.Context(), client, things(name)))
		results[i] = script(t, client, name)
	}
	require.Equal(t, results[0], results[1])
}

// script makes calls of each kind, and returns their outcomes.
func script(t *testing.T, client *dynamodb.Client, name string) (out []string) {
	t.Helper()
	ctx := t.Context()
	row := func(pk, sk, n string) dynamo.Item {
		return dynamo.Item{
			"PK": dynamo.String(pk), "SK": dynamo.String(sk), "n": &types.AttributeValueMemberN{Value: n}, "XPK": dynamo.String("x"), "XSK": dynamo.String(n + sk),
		}
	}
	keyOf := func(it dynamo.Item) dynamo.Item { return dynamo.Item{"PK": it["PK"], "SK": it["SK"]} }
	update := func(pk, sk, expression, condition string, values dynamo.Item) {
		in := &dynamodb.UpdateItemInput{
			TableName: &name, Key: keyOf(row(pk, sk, "0")), UpdateExpression: &expression, ExpressionAttributeNames: map[string]string{"#n": "n"},
			ExpressionAttributeValues: values, ReturnValues: types.ReturnValueAllNew,
		}
		if condition != "" {
			in.ConditionExpression = &condition
		}
		got, err := client.UpdateItem(ctx, in)
		if err != nil {
			out = append(out, outcomeOf(err))
			return
		}
		out = append(out, outcomeOf(nil, got.Attributes))
	}
	for _, it := range []dynamo.Item{row("a", "1", "5"), row("a", "2", "10"), row("a", "3", "7"), row("b", "1", "1")} {
		_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &name, Item: it, ConditionExpression: aws.String("attribute_not_exists(PK)")})
		out = append(out, outcomeOf(err))
	}
	_, err := client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &name, Item: row("a", "1", "6"), ConditionExpression: aws.String("attribute_not_exists(PK)")})
	out = append(out, outcomeOf(err))

	one := dynamo.Item{":one": dynamo.Number(1)}
	update("a", "1", "ADD #n :one", "", one)
	update("a", "1", "ADD #n :one", "#n > :one AND NOT attribute_not_exists(SK)", one)
	update("a", "1", "ADD #n :one", "#n < :one OR #n = :one", one)
	update("a", "1", "SET #n = #n - :one, extra = if_not_exists(extra, :one)", "(#n <> :one) AND attribute_exists(XPK)", one)
	update("a", "1", "REMOVE extra SET #n = :one", "", one)
	update("c", "1", "SET #n = :one", "absent = :one", one)
	update("c", "1", "SET #n = :one", "attribute_not_exists(absent)", one)
	set := dynamo.Item{":s": &types.AttributeValueMemberSS{Value: []string{"k"}}}
	update("c", "1", "ADD #n :s", "attribute_exists(nothing)", set)
	update("c", "2", "ADD #n :s", "", set)
	update("c", "2", "DELETE #n :s", "", set)

	transact := func(items ...types.TransactWriteItem) {
		_, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: items})
		out = append(out, outcomeOf(err))
	}
	present := aws.String("attribute_exists(PK)")
	transact(types.TransactWriteItem{Put: &types.Put{TableName: &name, Item: row("d", "1", "1")}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &name, Key: keyOf(row("z", "1", "1")), ConditionExpression: present}})
	transact(types.TransactWriteItem{Put: &types.Put{TableName: &name, Item: row("d", "2", "1")}},
		types.TransactWriteItem{ConditionCheck: &types.ConditionCheck{TableName: &name, Key: keyOf(row("a", "1", "1")), ConditionExpression: present}},
		types.TransactWriteItem{Delete: &types.Delete{TableName: &name, Key: keyOf(row("b", "1", "1"))}})
	twice := types.TransactWriteItem{Put: &types.Put{TableName: &name, Item: row("g", "1", "1")}}
	transact(twice, twice)
	for _, failure := range dynamo.InsertNew(ctx, client, name, []dynamo.Item{row("e", "1", "1"), row("a", "1", "1")}) {
		out = append(out, fmt.Sprint(failure))
	}
	require.NoError(t, dynamo.BatchPut(ctx, client, name, []dynamo.Item{row("f", "1", "1"), row("f", "2", "2")}))
	require.NoError(t, dynamo.BatchDelete(ctx, client, name, []dynamo.Item{keyOf(row("f", "1", "1")), keyOf(row("f", "9", "1"))}))
	for _, it := range []dynamo.Item{row("a", "1", ""), row("b", "1", ""), row("d", "1", ""), row("d", "2", ""), row("e", "1", ""), row("f", "1", ""), row("f", "2", "")} {
		got, err := dynamo.BatchGet(ctx, client, name, []dynamo.Item{keyOf(it)})
		out = append(out, outcomeOf(err, got...))
	}

	query := func(in dynamodb.QueryInput, values dynamo.Item) {
		in.TableName, in.ExpressionAttributeValues = &name, values
		for pages := dynamodb.NewQueryPaginator(client, &in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				out = append(out, outcomeOf(err))
				return
			}
			out = append(out, outcomeOf(nil, page.Items...))
		}
	}
	a := func(more dynamo.Item) dynamo.Item {
		if more == nil {
			more = dynamo.Item{}
		}
		more[":pk"] = dynamo.String("a")
		return more
	}
	query(dynamodb.QueryInput{KeyConditionExpression: aws.String("PK = :pk")}, a(nil))
	query(dynamodb.QueryInput{KeyConditionExpression: aws.String("PK = :pk"), ScanIndexForward: aws.Bool(false), Limit: aws.Int32(2)}, a(nil))
	query(dynamodb.QueryInput{KeyConditionExpression: aws.String("PK = :pk AND SK < :below")}, a(dynamo.Item{":below": dynamo.String("3")}))
	query(dynamodb.QueryInput{KeyConditionExpression: aws.String("PK = :pk AND begins_with(SK, :p)")}, a(dynamo.Item{":p": dynamo.String("2")}))
	query(dynamodb.QueryInput{KeyConditionExpression: aws.String("PK = :pk"), FilterExpression: aws.String("n > :n")}, a(dynamo.Item{":n": dynamo.Number(6)}))
	query(dynamodb.QueryInput{KeyConditionExpression: aws.String("XPK = :x"), IndexName: aws.String("GSI1"), Limit: aws.Int32(3)}, dynamo.Item{":x": dynamo.String("x")})
	return out
}
