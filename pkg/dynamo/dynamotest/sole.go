package dynamotest

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// Sole returns a client for a test that is the only writer of its tables. Queries of partitions that
// were never written are answered at once as empty, which they are: a pass over 64 partitions is the
// slowest thing that such tests do. All clients of the test must be made of this one's options, so
// that every write is noted before it is sent. partition is the attribute of the partition key.
func Sole(client *dynamodb.Client, partition string) *dynamodb.Client {
	s := &sole{partition: partition, written: map[string]bool{}}
	return dynamodb.New(client.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("sole", s.handle), middleware.After)
		})
	})
}

type sole struct {
	partition string

	mu      sync.Mutex
	written map[string]bool
	unknown bool // something was written in a way that is not understood
}

func (s *sole) handle(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	if q, ok := in.Parameters.(*dynamodb.QueryInput); ok {
		if s.empty(q) {
			return middleware.InitializeOutput{Result: &dynamodb.QueryOutput{}}, middleware.Metadata{}, nil
		}
		return next.HandleInitialize(ctx, in)
	}
	s.note(in.Parameters)
	return next.HandleInitialize(ctx, in)
}

// empty reports whether a query is of one partition of a table that was never written.
func (s *sole) empty(q *dynamodb.QueryInput) bool {
	pk, ok := q.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS)
	if !ok || q.IndexName != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.unknown && !s.written[pk.Value]
}

func (s *sole) note(in any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch in := in.(type) {
	case *dynamodb.PutItemInput:
		s.add(in.Item)
	case *dynamodb.UpdateItemInput:
		s.add(in.Key)
	case *dynamodb.TransactWriteItemsInput:
		for _, it := range in.TransactItems {
			if it.Put != nil {
				s.add(it.Put.Item)
			}
			if it.Update != nil {
				s.add(it.Update.Key)
			}
		}
	case *dynamodb.BatchWriteItemInput:
		for _, requests := range in.RequestItems {
			for _, r := range requests {
				if r.PutRequest != nil {
					s.add(r.PutRequest.Item)
				}
			}
		}
	case *dynamodb.BatchExecuteStatementInput, *dynamodb.ExecuteStatementInput, *dynamodb.ExecuteTransactionInput,
		*dynamodb.ImportTableInput, *dynamodb.RestoreTableFromBackupInput, *dynamodb.RestoreTableToPointInTimeInput:
		s.unknown = true
	}
}

func (s *sole) add(it map[string]types.AttributeValue) {
	if pk, ok := it[s.partition].(*types.AttributeValueMemberS); ok {
		s.written[pk.Value] = true
		return
	}
	s.unknown = true
}
