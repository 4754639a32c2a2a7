package dynamo_test

import (
	"context"
	"errors"
	"strconv"
	"sync"
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

type stored = map[string]types.AttributeValue

func s(v string) types.AttributeValue { return &types.AttributeValueMemberS{Value: v} }

func n(v int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(v, 10)}
}

func get(t *testing.T, db *awsdynamo.Client, table string, key stored) stored {
	t.Helper()
	out, err := db.GetItem(t.Context(), &awsdynamo.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	require.NoError(t, err)
	return out.Item
}

// Other programs and operators depend on the layout of the tables, so names, types and units must
// stay the same. Positions expire a day after they were issued.
func TestItemLayout(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	now := time.UnixMilli(1_800_000_000_123)
	store := dynamo.New(awsdynamo.New(db.Options(), dynamotest.Hook{}.Options), cfg, func() time.Time { return now })
	counters, positions := cfg.Prefix+"-vwr-counters", cfg.Prefix+"-vwr-positions"
	c := roomtest.StartRound(t, store, "demo", room.Settings{Batch: 30, Interval: 2 * time.Second, Inlet: room.MaxInFlight, MaxInFlight: 9, ProofOfWork: 17, Next: room.NextQueue, Expected: 70_000, AskRate: 500})
	id := uuid.MustParse("fe3a9f10-5a73-4c8e-8f3e-2b8f7a1d0c55")
	rec, err := roomtest.Take(t.Context(), store, c, "visitor", id)
	require.NoError(t, err)
	require.NoError(t, store.SetServing(t.Context(), roomtest.Read(t, store, "demo"), 1))
	claim(t, store, rec)

	round := n(int64(c.Round))
	counter := stored{
		"eventId": s("demo"), "nextPosition": n(1), "servingCounter": n(1), "isActive": &types.AttributeValueMemberBOOL{Value: true},
		"updatedAt": n(1_800_000_000_123), "activatedAt": round, "batch": n(30), "intervalMs": n(2000), "inlet": s("MAX_IN_FLIGHT"),
		"maxInFlight": n(9), "proofOfWork": n(17), "signIn": &types.AttributeValueMemberBOOL{}, "next": s("QUEUE"), "expected": n(70_000), "askRate": n(500),
	}
	for what, c := range map[string]struct {
		table string
		want  stored
	}{
		"the counters":         {counters, counter},
		"the active events":    {counters, stored{"eventId": s("#active"), "events": &types.AttributeValueMemberSS{Value: []string{"demo"}}}},
		"a position":           {positions, stored{"eventId": s("demo#23a"), "requestId": s(id.String()), "position": n(1), "userId": s("visitor"), "activatedAt": round, "createdAt": n(1_800_000_000_123), "ttl": n(1_800_086_400)}},
		"a set of the claims":  {positions, stored{"eventId": s("demo#claims"), "requestId": s("1700000000000000#0"), "claims": &types.AttributeValueMemberNS{Value: []string{"1"}}, "ttl": n(1_800_086_400)}},
		"the number of claims": {positions, stored{"eventId": s("demo#claims"), "requestId": s("1700000000000000#count"), "claimed": n(1), "ttl": n(1_800_086_400)}},
	} {
		key := stored{}
		for name, v := range c.want {
			if name == "eventId" || name == "requestId" {
				key[name] = v
			}
		}
		require.Equal(t, c.want, get(t, db, c.table, key), what)
	}

	require.NoError(t, store.Stop(t.Context(), "demo", c.Round))
	require.NotContains(t, get(t, db, counters, stored{"eventId": s("#active")}), "events", "after the end of the round")
}

// A new round has no attribute of an earlier round, not even one written by another release.
func TestRoundKeepsNothingOfAnEarlierOne(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	require.NoError(t, dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex))
	store := dynamo.New(db, cfg, time.Now)
	counters := cfg.Prefix + "-vwr-counters"
	first := roomtest.StartRound(t, store, "demo", room.Settings{Batch: 1, Interval: time.Second, Inlet: room.Periodic, ProofOfWork: 17, Next: room.NextPromo})
	require.NoError(t, store.Stop(t.Context(), "demo", first.Round))
	_, err := db.UpdateItem(t.Context(), &awsdynamo.UpdateItemInput{
		TableName: &counters, Key: stored{"eventId": s("demo")}, UpdateExpression: aws.String("SET ofALaterRelease = :one, startsAt = :one"),
		ExpressionAttributeValues: stored{":one": n(1)},
	})
	require.NoError(t, err)
	next := room.Counters{EventID: "demo", Active: true, Round: first.Round + 1, Settings: room.DefaultSettings()}
	require.ErrorIs(t, store.Start(t.Context(), next, first.Round-1, nil), room.ErrStale)
	require.NoError(t, store.Start(t.Context(), next, first.Round, nil))
	it := get(t, db, counters, stored{"eventId": s("demo")})
	require.NotContains(t, it, "ofALaterRelease")
	require.NotContains(t, it, "startsAt")
	got := roomtest.Read(t, store, "demo")
	require.Equal(t, room.DefaultSettings(), got.Settings)
	require.ErrorIs(t, store.Start(t.Context(), next, first.Round, nil), room.ErrStale)
}

// claim writes the claim of one record.
func claim(t *testing.T, store *dynamo.Store, r room.Record) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	claims := dynamo.NewClaims(store)
	claims.RecordClaim(r)
	stop() // Run then writes the queued claims
	require.NoError(t, claims.Run(ctx))
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	var work sync.WaitGroup
	var failures [4]error
	for i := range failures { // concurrently, as replicas do
		work.Go(func() { failures[i] = dynamo.Migrate(t.Context(), db, cfg, dynamo.WithPositionIndex) })
	}
	work.Wait()
	require.NoError(t, errors.Join(failures[:]...))
	hash := func(name string) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeHash}
	}
	sorted := func(name string) types.KeySchemaElement {
		return types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeRange}
	}
	for table, want := range map[string][]types.KeySchemaElement{
		cfg.Prefix + "-vwr-counters":  {hash("eventId")},
		cfg.Prefix + "-vwr-positions": {hash("eventId"), sorted("requestId")},
	} {
		out, err := db.DescribeTable(t.Context(), &awsdynamo.DescribeTableInput{TableName: &table})
		require.NoError(t, err)
		require.Equal(t, want, out.Table.KeySchema, table)
		require.Equal(t, types.BillingModePayPerRequest, out.Table.BillingModeSummary.BillingMode)
		if len(want) == 1 {
			continue
		}
		x := out.Table.GlobalSecondaryIndexes[0]
		require.Equal(t, "eventId-position-index", *x.IndexName)
		require.Equal(t, []types.KeySchemaElement{hash("eventId"), sorted("position")}, x.KeySchema)
		require.Equal(t, types.ProjectionTypeAll, x.Projection.ProjectionType)
		ttl, err := db.DescribeTimeToLive(t.Context(), &awsdynamo.DescribeTimeToLiveInput{TableName: &table})
		require.NoError(t, err)
		require.Equal(t, "ttl", aws.ToString(ttl.TimeToLiveDescription.AttributeName), "positions expire")
	}
}

// DYNAMODB_PITR enables point-in-time recovery for both tables. DynamoDB Local does not support it,
// so the test answers the call.
func TestMigrateEnablesPITR(t *testing.T) {
	t.Parallel()
	cfg, db := dynamotest.Tables(t)
	on := make(map[string]bool)
	watched := awsdynamo.New(db.Options(), dynamotest.Hook{Answer: func(in any) any {
		if u, ok := in.(*awsdynamo.UpdateContinuousBackupsInput); ok {
			on[*u.TableName] = *u.PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled
			return &awsdynamo.UpdateContinuousBackupsOutput{}
		}
		return nil
	}}.Options)
	require.NoError(t, dynamo.Migrate(t.Context(), watched, cfg, dynamo.WithPositionIndex))
	require.Empty(t, on)
	cfg.PITR = true
	require.NoError(t, dynamo.Migrate(t.Context(), watched, cfg, dynamo.WithPositionIndex))
	require.Equal(t, map[string]bool{cfg.Prefix + "-vwr-counters": true, cfg.Prefix + "-vwr-positions": true}, on)
}
