package dynamo_test

import (
	"errors"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
)

// canceled returns the SDK's error of a transaction whose items have these reason codes.
func canceled(codes ...string) error {
	err := &types.TransactionCanceledException{Message: aws.String("cancelled")}
	for _, code := range codes {
		err.CancellationReasons = append(err.CancellationReasons, types.CancellationReason{Code: aws.String(code)})
	}
	return err
}

func TestReasonsOfACanceledTransaction(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err         error
		contended   bool
		unavailable bool
		invalid     int // -1: none
	}{
		"condition":                    {canceled("None", "ConditionalCheckFailed"), true, false, -1},
		"conflict":                     {canceled("TransactionConflict", "None"), true, false, -1},
		"condition and conflict":       {canceled("TransactionConflict", "ConditionalCheckFailed"), true, false, -1},
		"throttled":                    {canceled("None", "ThrottlingError"), false, true, -1},
		"throughput and conflict":      {canceled("ProvisionedThroughputExceeded", "TransactionConflict"), false, true, -1},
		"throttled beside a condition": {canceled("ThrottlingError", "ConditionalCheckFailed"), false, false, -1},
		"invalid":                      {canceled("None", "None", "ValidationError"), false, false, 2},
		"too large":                    {canceled("ItemCollectionSizeLimitExceeded", "ConditionalCheckFailed"), false, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.contended, dynamo.Contended(tc.err))
			require.Equal(t, tc.unavailable, errors.Is(dynamo.Err(tc.err), errs.ErrUnavailable))
			reasons, ok := dynamo.Canceled(tc.err)
			require.True(t, ok)
			i, invalid := reasons.FirstInvalid()
			require.Equal(t, tc.invalid >= 0, invalid)
			if invalid {
				require.Equal(t, tc.invalid, i)
			}
		})
	}
	_, ok := dynamo.Canceled(errors.New("other"))
	require.False(t, ok)
	require.False(t, dynamo.Contended(nil))
	require.True(t, dynamo.Contended(&types.TransactionConflictException{}), "of a single write")
	require.True(t, dynamo.Contended(&types.ConditionalCheckFailedException{}), "of a single write")
}

// The SDK's error has the reason of each item, and the stored item of a failed condition.
func TestTransactionNamesItsFailedItem(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := cfg.Table("things")
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, spec(table)))
	put := func(owner string) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &table, Item: item(owner, owner), ConditionExpression: aws.String("attribute_not_exists(pk)"),
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}}
	}
	write := func(client *dynamodb.Client, items ...types.TransactWriteItem) error {
		_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: items})
		return err
	}
	require.NoError(t, write(client, put("a")))
	err := write(client, put("b"), put("a"))
	reasons, ok := dynamo.Canceled(err)
	require.True(t, ok)
	require.False(t, reasons.Failed(0))
	require.True(t, reasons.Failed(1))
	require.False(t, reasons.Failed(2))
	require.Equal(t, dynamo.String("a"), reasons.Reasons[1].Item["owner"])
	require.ErrorContains(t, reasons, "item 1: ConditionalCheckFailed")
	require.ErrorIs(t, err, reasons.Unwrap())

	contended := dynamodb.New(client.Options(), dynamotest.Hook{Before: func(any) error { return canceled("TransactionConflict") }}.Options)
	require.True(t, dynamo.Contended(write(contended, put("b"))), "DynamoDB Local never reports a conflict by itself")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	before := dynamo.Item{"a": dynamo.String("1"), "b": dynamo.Number(2), "c": dynamo.Bool(true), "gone": dynamo.String("x")}
	after := dynamo.Item{"a": dynamo.String("1"), "b": dynamo.Number(3), "c": dynamo.Bool(true), "new": dynamo.String("y")}
	got := dynamo.Diff(before, after)
	require.Equal(t, "SET #n1 = :n1, #n3 = :n3 REMOVE #r3", got.Expression)
	require.Equal(t, map[string]string{"#n1": "b", "#n3": "new", "#r3": "gone"}, got.Names)
	require.Equal(t, dynamo.Item{":n1": dynamo.Number(3), ":n3": dynamo.String("y")}, got.Values)
	require.Empty(t, dynamo.Diff(before, before).Expression)
	require.Equal(t, "REMOVE #r3", dynamo.Diff(before, dynamo.Item{"a": dynamo.String("1"), "b": dynamo.Number(2), "c": dynamo.Bool(true)}).Expression)
}

func TestReaderKeepsTheFirstError(t *testing.T) {
	t.Parallel()
	r := dynamo.Reader{Item: dynamo.Item{"s": dynamo.String("text"), "n": dynamo.Number(-7), "b": dynamo.Bool(true)}}
	require.Equal(t, "text", r.String("s"))
	require.Equal(t, int64(-7), r.Number("n"))
	require.True(t, r.Bool("b"))
	require.Empty(t, r.String("absent"))
	require.NoError(t, r.Err())
	require.Zero(t, r.Number("s"))
	require.Empty(t, r.String("n"))
	require.ErrorContains(t, r.Err(), "attribute s")
}
