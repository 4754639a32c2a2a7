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

// A round that an earlier version has started keeps its partition keys: all positions have one, or
// they are divided by the attribute shards.
func TestRoundsOfEarlierVersionsKeepTheirKeys(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	store := dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{}.Options), cfg, time.Now)
	id := uuid.MustParse("00000007-5a73-4c8e-8f3e-2b8f7a1d0c55")
	for name, round := range map[string]struct {
		change    string
		partition string
	}{
		"one":     {"REMOVE shards", "one"},
		"sharded": {"SET shards = :n", "sharded#2"},
	} {
		roomtest.StartRound(t, store, name, room.DefaultSettings())
		update := &awsdynamo.UpdateItemInput{
			TableName: aws.String(cfg.Prefix + "-vwr-counters"), Key: stored{"eventId": s(name)}, UpdateExpression: &round.change,
		}
		if name == "sharded" {
			update.ExpressionAttributeValues = stored{":n": n(5)}
		}
		_, err := db.UpdateItem(t.Context(), update)
		require.NoError(t, err)
		c := roomtest.Read(t, store, name)
		want, err := takeWithID(t.Context(), store, c, id)
		require.NoError(t, err)
		require.NotEmpty(t, get(t, db, cfg.Prefix+"-vwr-positions", stored{"eventId": s(round.partition), "requestId": s(id.String())}))
		got, err := takeWithID(t.Context(), store, c, id)
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.NoError(t, store.Stop(t.Context(), name, c.Round))
		require.NoError(t, store.Start(t.Context(), room.Counters{EventID: name, Active: true, Round: c.Round + 1, Settings: room.DefaultSettings()}, c.Round, nil))
		require.Equal(t, 1024, roomtest.Read(t, store, name).Shards, "the next round")
	}
}
