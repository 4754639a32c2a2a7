package dynamo_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsdynamo "github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
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

// The positions of a round with shards are divided among the partitions <event>#0 to
// <event>#<shards-1>. Each partition is used, and together they have every position once.
func TestShardsDivideAllPositions(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	store := dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{}.Options), cfg, time.Now)
	const event, shards, visitors = "large", 4, 80
	c := roomtest.StartShardedRound(t, store, event, shards, room.DefaultSettings())
	records := roomtest.TakeMany(t, store, c, visitors)
	table := cfg.Prefix + "-vwr-positions"
	require.Empty(t, indexedPositions(t, db, table, event), "the partition of the default layout")
	var all []int64
	for shard := range shards {
		in := indexedPositions(t, db, table, fmt.Sprintf("%s#%d", event, shard))
		require.True(t, slices.IsSorted(in))
		require.GreaterOrEqual(t, len(in), visitors/shards/4, "shard %d", shard)
		all = append(all, in...)
	}
	slices.Sort(all)
	require.Len(t, all, visitors)
	require.Equal(t, []int64{1, visitors}, []int64{all[0], all[visitors-1]})
	require.Len(t, slices.Compact(all), visitors)

	other := dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{}.Options), cfg, time.Now)
	for _, want := range records {
		got, found, err := other.FindRecord(t.Context(), c, want.RequestID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, want, got)
	}
}

// A new round has the number of shards with which it is started, whatever the earlier round had.
func TestEachRoundHasItsShards(t *testing.T) {
	t.Parallel()
	open := tables(t)
	store := open(dynamotest.Hook{})
	c := roomtest.StartShardedRound(t, store, "rounds", 8, room.DefaultSettings())
	for _, shards := range []int{1, 5, 2} {
		require.NoError(t, store.Stop(t.Context(), c.EventID, c.Round))
		next := room.Counters{EventID: c.EventID, Active: true, Round: c.Round + 1, Settings: room.DefaultSettings(), Shards: shards}
		require.NoError(t, store.Start(t.Context(), next, c.Round, nil))
		c = roomtest.Read(t, store, c.EventID)
		require.Equal(t, shards, c.Shards)
		r, err := takeWithID(t.Context(), store, c, uuid.New())
		require.NoError(t, err)
		require.Equal(t, int64(1), r.Position)
		got, found, err := store.FindRecord(t.Context(), c, r.RequestID)
		require.NoError(t, err)
		require.True(t, found)
		require.Equal(t, r, got)
	}
}
