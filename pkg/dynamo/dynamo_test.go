package dynamo_test

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
)

func spec(name string) dynamo.Table {
	return dynamo.Table{
		Name:      name,
		Partition: dynamo.Key{Name: "pk", Type: types.ScalarAttributeTypeS},
		Sort:      dynamo.Key{Name: "sk", Type: types.ScalarAttributeTypeN},
		Indexes: []dynamo.Index{{
			Name:      "by-owner",
			Partition: dynamo.Key{Name: "owner", Type: types.ScalarAttributeTypeS},
			Sort:      dynamo.Key{Name: "sk", Type: types.ScalarAttributeTypeN},
		}},
		TTL: "ttl",
	}
}

func item(pk, owner string) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"pk":    &types.AttributeValueMemberS{Value: pk},
		"sk":    &types.AttributeValueMemberN{Value: "1"},
		"owner": &types.AttributeValueMemberS{Value: owner},
	}
}

func TestEnsureTableAndConditions(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := cfg.Table("things")
	require.True(t, strings.HasPrefix(table, cfg.Prefix+"-"))
	for range 2 { // the second time it exists
		require.NoError(t, dynamo.EnsureTable(t.Context(), client, spec(table)))
	}
	ttl, err := client.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	require.NoError(t, err)
	require.Equal(t, "ttl", aws.ToString(ttl.TimeToLiveDescription.AttributeName))

	put := &dynamodb.PutItemInput{TableName: &table, Item: item("a", "o"), ConditionExpression: aws.String("attribute_not_exists(pk)")}
	_, err = client.PutItem(t.Context(), put)
	require.NoError(t, err)
	_, err = client.PutItem(t.Context(), put)
	require.True(t, dynamo.ConditionFailed(err))
	require.NotErrorIs(t, dynamo.Err(err), errs.ErrUnavailable, "a failed condition is an answer")

	found, err := client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: &table, IndexName: aws.String("by-owner"), KeyConditionExpression: aws.String("#o = :o"),
		ExpressionAttributeNames:  map[string]string{"#o": "owner"},
		ExpressionAttributeValues: map[string]types.AttributeValue{":o": &types.AttributeValueMemberS{Value: "o"}},
	})
	require.NoError(t, err)
	require.Equal(t, int32(1), found.Count)
}

func TestTTLOnAnotherAttributeIsAnError(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := spec(cfg.Table("things"))
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, table))
	table.TTL = "expires"
	require.ErrorContains(t, dynamo.EnsureTable(t.Context(), client, table), "is on attribute ttl")
}

func TestEnsureTableConcurrently(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	results := make(chan error, 8)
	for range cap(results) {
		go func() { results <- dynamo.EnsureTable(t.Context(), client, spec(cfg.Table("things"))) }()
	}
	for range cap(results) {
		require.NoError(t, <-results)
	}
}

// backups answers UpdateContinuousBackups like AWS, since DynamoDB Local does not implement it. It
// refuses the first calls, as many as refusals says, and then accepts.
type backups struct {
	refusals atomic.Int64
	request  atomic.Pointer[dynamodb.UpdateContinuousBackupsInput]
}

func (b *backups) options(o *dynamodb.Options) {
	o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
		if s.ID() != "UpdateContinuousBackups" {
			return nil
		}
		err := s.Initialize.Add(middleware.InitializeMiddlewareFunc("note", func(
			ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
		) (middleware.InitializeOutput, middleware.Metadata, error) {
			request, _ := in.Parameters.(*dynamodb.UpdateContinuousBackupsInput)
			b.request.Store(request)
			return next.HandleInitialize(ctx, in)
		}), middleware.Before)
		return errors.Join(err, s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("answer", func(
			context.Context, middleware.DeserializeInput, middleware.DeserializeHandler,
		) (out middleware.DeserializeOutput, _ middleware.Metadata, err error) {
			if b.refusals.Add(-1) >= 0 {
				return out, middleware.Metadata{}, &types.ContinuousBackupsUnavailableException{}
			}
			out.Result = &dynamodb.UpdateContinuousBackupsOutput{}
			return out, middleware.Metadata{}, nil
		}), middleware.Before))
	})
}

func TestRecoveryWaitsForBackups(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	var b backups
	fakeAWS := dynamodb.New(client.Options(), b.options)
	table := spec(cfg.Table("things"))
	require.NoError(t, dynamo.EnsureTable(t.Context(), fakeAWS, table))
	require.Nil(t, b.request.Load(), "recovery costs money: it is enabled on request only")
	table.PITR = true
	b.refusals.Store(3)
	require.NoError(t, dynamo.EnsureTablePausing(t.Context(), fakeAWS, table, time.Millisecond))
	require.Equal(t, table.Name, *b.request.Load().TableName)
	require.True(t, *b.request.Load().PointInTimeRecoverySpecification.PointInTimeRecoveryEnabled)
	require.Negative(t, b.refusals.Load())
}

func TestTablesUsePayPerRequest(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := cfg.Table("things")
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, spec(table)))
	out, err := client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table})
	require.NoError(t, err)
	require.Equal(t, types.BillingModePayPerRequest, out.Table.BillingModeSummary.BillingMode)
}

func TestUnreachableServiceIsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	client, err := dynamo.Open(t.Context(), dynamo.Config{Region: "local", Endpoint: "http://" + l.Addr().String()})
	require.NoError(t, err)
	_, err = client.ListTables(t.Context(), &dynamodb.ListTablesInput{}, dynamo.NoRetry)
	require.ErrorIs(t, dynamo.Err(err), errs.ErrUnavailable)
	require.NoError(t, dynamo.Err(nil))
}
