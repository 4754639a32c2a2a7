package dynamo_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
)

// numbered returns the items k0 to k<n-1>, all with the same value.
func numbered(n int, value int64) []dynamo.Item {
	items := onlyPK(n)
	for _, it := range items {
		it["value"] = dynamo.Number(value)
	}
	return items
}

func TestInsertNew(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := cfg.Table("inserts")
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, dynamo.Table{Name: table, Partition: dynamo.Key{Name: "PK", Type: "S"}}))
	for _, err := range dynamo.InsertNew(t.Context(), client, table, numbered(3, 1)) {
		require.NoError(t, err)
	}
	for i, err := range dynamo.InsertNew(t.Context(), client, table, numbered(dynamo.MaxInsert, 2)) {
		if i < 3 {
			require.ErrorIs(t, err, dynamo.ErrExists, "item %d", i)
		} else {
			require.NoError(t, err, "item %d", i)
		}
	}
	stored, err := dynamo.BatchGet(t.Context(), client, table, onlyPK(dynamo.MaxInsert))
	require.NoError(t, err)
	require.ElementsMatch(t, append(numbered(3, 1), numbered(dynamo.MaxInsert, 2)[3:]...), stored)
	for _, err := range dynamo.InsertNew(t.Context(), client, cfg.Table("absent"), numbered(2, 1)) {
		require.Error(t, err)
		require.NotErrorIs(t, err, dynamo.ErrExists)
	}
}

// A statement's error is that of its item. A refused call has stored nothing of this attempt.
func TestInsertNewReportsErrors(t *testing.T) {
	t.Parallel()
	var whole error
	client := dynamodb.New(dynamodb.Options{Region: "local", Retryer: aws.NopRetryer{}}, dynamotest.Hook{
		Before: func(any) error { return whole },
		Answer: func(in any) any {
			asked, ok := in.(*dynamodb.BatchExecuteStatementInput)
			if !ok {
				panic(fmt.Sprintf("%T", in))
			}
			out := &dynamodb.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(asked.Statements))}
			for i, code := range []types.BatchStatementErrorCodeEnum{
				types.BatchStatementErrorCodeEnumThrottlingError, types.BatchStatementErrorCodeEnumValidationError,
				types.BatchStatementErrorCodeEnumDuplicateItem, types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded,
			} {
				out.Responses[i].Error = &types.BatchStatementError{Code: code}
			}
			return out
		},
	}.Options)
	got := dynamo.InsertNew(t.Context(), client, "t", numbered(5, 1))
	require.ErrorIs(t, got[0], dynamo.ErrThrottled)
	require.ErrorContains(t, got[1], "ValidationError")
	require.ErrorIs(t, got[2], dynamo.ErrExists)
	require.ErrorIs(t, got[3], dynamo.ErrThrottled)
	require.NoError(t, got[4])
	for _, throttled := range []bool{true, false} {
		if whole = dynamotest.ErrConnReset; throttled {
			whole = &types.ThrottlingException{}
		}
		for _, err := range dynamo.InsertNew(t.Context(), client, "t", numbered(2, 1)) {
			require.Error(t, err)
			require.Equal(t, throttled, errors.Is(err, dynamo.ErrThrottled))
		}
	}
}
