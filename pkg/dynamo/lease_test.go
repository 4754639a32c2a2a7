package dynamo_test

import (
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/testkit"
)

func TestLeases(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := dynamo.Table{
		Name: cfg.Table("things"), Partition: dynamo.Key{Name: "PK", Type: types.ScalarAttributeTypeS},
		Sort: dynamo.Key{Name: "SK", Type: types.ScalarAttributeTypeS},
	}
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, table))
	clock := testkit.NewClock(time.UnixMilli(1_800_000_000_000))
	lease := func(owner string) dynamo.Leases {
		return dynamo.Leases{Client: client, Table: table.Name, Owner: owner, Life: 10 * time.Second, Now: clock.Now}
	}
	acquire := func(owner, name string) bool {
		t.Helper()
		ok, err := lease(owner).Acquire(t.Context(), name)
		require.NoError(t, err)
		return ok
	}
	require.True(t, acquire("a", "x"))
	require.False(t, acquire("b", "x"))
	require.True(t, acquire("b", "y"), "names are independent")
	clock.Advance(9 * time.Second)
	require.True(t, acquire("a", "x"), "renewed")
	clock.Advance(9 * time.Second)
	require.False(t, acquire("b", "x"))
	clock.Advance(2 * time.Second)
	require.True(t, acquire("b", "x"), "it has ended")
	require.False(t, acquire("a", "x"))
}
