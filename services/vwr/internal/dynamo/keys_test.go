package dynamo_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/services/vwr/internal/dynamo"
	"urr.guru/services/vwr/internal/room"
	"urr.guru/services/vwr/internal/room/roomtest"
)

// indexedPositions reads the positions in one partition of the index, like an operator.
func indexedPositions(t *testing.T, db *awsdynamo.Client, table, partition string) (positions []int64) {
	t.Helper()
	pages := awsdynamo.NewQueryPaginator(db, &awsdynamo.QueryInput{
		TableName: &table, IndexName: aws.String("eventId-position-index"), KeyConditionExpression: aws.String("eventId = :p"),
		ExpressionAttributeValues: stored{":p": s(partition)},
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(t.Context())
		require.NoError(t, err)
		for _, it := range page.Items {
			var p int64
			_, err := fmt.Sscan(it["position"].(*types.AttributeValueMemberN).Value, &p)
			require.NoError(t, err)
			positions = append(positions, p)
		}
	}
	return positions
}

// The positions of a round are divided among the partition keys <event>#000 to <event>#3ff, and are
// found by them at every replica.
func TestKeysDivideAllPositions(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	open := func() *dynamo.Store {
		return dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{}.Options), cfg, time.Now)
	}
	store, table := open(), cfg.Prefix+"-vwr-positions"
	c := roomtest.StartRound(t, store, "large", room.DefaultSettings())
	records := roomtest.TakeMany(t, store, c, 40)
	keys := make(map[string]bool)
	for _, want := range records {
		key := fmt.Sprintf("large#%03x", (int(want.RequestID[0])<<8+int(want.RequestID[1]))%1024)
		keys[key] = true
		require.Contains(t, indexedPositions(t, db, table, key), want.Position)
		got, found, err := open().FindRecord(t.Context(), c, want.RequestID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, got)
	}
	require.Greater(t, len(keys), 20)
	require.Equal(t, []int64{1, 40}, []int64{slices.MinFunc(records, byPosition).Position, slices.MaxFunc(records, byPosition).Position})
}

func byPosition(a, b room.Record) int { return cmp.Compare(a.Position, b.Position) }
