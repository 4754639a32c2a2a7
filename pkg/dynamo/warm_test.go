package dynamo_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/plan"
)

// Warm raises what is too low, of the table and of its index, and lowers nothing.
func TestWarm(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := cfg.Table("vwr-positions")
	described := spec(table)
	described.Indexes[0].Name = "eventId-position-index"
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, described))
	// DynamoDB Local fails UpdateTable and describes no warm throughput: the hook answers like AWS.
	var reads, writes, indexWrites int64
	var asked *dynamodb.UpdateTableInput
	hook := dynamotest.Hook{
		Answer: func(in any) any {
			update, ok := in.(*dynamodb.UpdateTableInput)
			if !ok {
				return nil
			}
			asked = update
			return &dynamodb.UpdateTableOutput{}
		},
		After: func(_, out any) error {
			if described, ok := out.(*dynamodb.DescribeTableOutput); ok && writes > 0 {
				described.Table.WarmThroughput = &types.TableWarmThroughputDescription{ReadUnitsPerSecond: &reads, WriteUnitsPerSecond: &writes}
				described.Table.GlobalSecondaryIndexes[0].WarmThroughput = &types.GlobalSecondaryIndexWarmThroughputDescription{WriteUnitsPerSecond: &indexWrites}
			}
			return nil
		},
	}
	client = dynamodb.New(client.Options(), hook.Options)
	crowd := plan.Opening{Kind: plan.Sale, Expected: plan.Expected{Visitors: 1_000_000, WithinSeconds: 60}}
	warm := func() string {
		t.Helper()
		asked = nil
		text, err := dynamo.Warm(t.Context(), client, cfg, crowd)
		require.NoError(t, err)
		return text
	}
	text := warm()
	require.Equal(t, []int64{16667, 25000}, units(asked.WarmThroughput))
	require.Len(t, asked.GlobalSecondaryIndexUpdates, 1)
	require.Equal(t, "eventId-position-index", *asked.GlobalSecondaryIndexUpdates[0].Update.IndexName)
	require.Equal(t, []int64{0, 25000}, units(asked.GlobalSecondaryIndexUpdates[0].Update.WarmThroughput))
	require.Contains(t, text, table+": 25000 write and 16667 read units per second; "+table+" eventId-position-index: 25000 write")

	reads, writes, indexWrites = 12000, 4000, 30000
	warm()
	require.Equal(t, []int64{16667, 25000}, units(asked.WarmThroughput))
	require.Empty(t, asked.GlobalSecondaryIndexUpdates)

	reads, indexWrites = 40000, 4000
	warm()
	require.Equal(t, []int64{40000, 25000}, units(asked.WarmThroughput), "what suffices stays")
	require.Len(t, asked.GlobalSecondaryIndexUpdates, 1)

	writes, indexWrites = 40000, 30000
	require.Equal(t, table+" is warm enough", warm())
	require.Nil(t, asked)

	crowd.Kind = plan.Promotion
	_, err := dynamo.Warm(t.Context(), client, cfg, crowd)
	require.ErrorContains(t, err, "describe table "+cfg.Table("AsyncEventTable"))
}

func units(w *types.WarmThroughput) []int64 {
	return []int64{aws.ToInt64(w.ReadUnitsPerSecond), aws.ToInt64(w.WriteUnitsPerSecond)}
}
