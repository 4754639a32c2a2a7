package dynamotest_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
)

func TestTablesAreTheTestsOwnAndDeleted(t *testing.T) {
	t.Parallel()
	_, client := dynamotest.Tables(t)
	var names []string
	t.Run("test", func(t *testing.T) {
		for range 2 {
			cfg, client := dynamotest.Tables(t)
			names = append(names, cfg.Table("own"))
			require.NoError(t, dynamo.EnsureTable(t.Context(), client, dynamo.Table{
				Name: cfg.Table("own"), Partition: dynamo.Key{Name: "id", Type: types.ScalarAttributeTypeS},
			}))
		}
	})
	require.NotEqual(t, names[0], names[1])
	for _, name := range names {
		_, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		var unknown *types.ResourceNotFoundException
		require.ErrorAs(t, err, &unknown)
	}
}
