package dynamo_test

import (
	"fmt"
	"sync/atomic"
	"testing"

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

// Only throttled statements are sent again, and not forever.
func TestInsertNewRepeatsThrottled(t *testing.T) {
	t.Parallel()
	var calls atomic.Int64
	var sizes []int
	always := atomic.Bool{}
	client := dynamodb.New(dynamodb.Options{Region: "local"}, dynamotest.Hook{Answer: func(in any) any {
		asked, ok := in.(*dynamodb.BatchExecuteStatementInput)
		if !ok {
			panic(fmt.Sprintf("%T", in))
		}
		sizes = append(sizes, len(asked.Statements))
		out := &dynamodb.BatchExecuteStatementOutput{Responses: make([]types.BatchStatementResponse, len(asked.Statements))}
		fail := func(i int, code types.BatchStatementErrorCodeEnum) {
			out.Responses[i].Error = &types.BatchStatementError{Code: code}
		}
		switch {
		case always.Load():
			fail(0, types.BatchStatementErrorCodeEnumRequestLimitExceeded)
		case calls.Add(1) == 1:
			fail(0, types.BatchStatementErrorCodeEnumThrottlingError)
			fail(1, types.BatchStatementErrorCodeEnumValidationError)
			fail(3, types.BatchStatementErrorCodeEnumProvisionedThroughputExceeded)
		case calls.Load() == 2:
			fail(1, types.BatchStatementErrorCodeEnumDuplicateItem)
		}
		return out
	}}.Options)
	got := dynamo.InsertNew(t.Context(), client, "t", numbered(5, 1))
	require.Equal(t, []int{5, 2}, sizes)
	require.ErrorContains(t, got[1], "ValidationError")
	require.ErrorIs(t, got[3], dynamo.ErrExists)
	require.NoError(t, got[0])
	require.NoError(t, got[2])
	always.Store(true)
	sizes = nil
	require.ErrorContains(t, dynamo.InsertNew(t.Context(), client, "t", numbered(1, 1))[0], "RequestLimitExceeded")
	require.Len(t, sizes, 5)
}
