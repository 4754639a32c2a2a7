package dynamotest

import (
	"context"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"
)

// SoleWriter returns a client for a test that is the only writer of its tables. The client does not
// send queries of partitions that were never written, and returns no items instead: queries of 64
// empty partitions would be the slowest part of the test. All clients of the test must be made with
// the options of this one, so that every write is recorded before it is sent. partition is the name
// of the partition key.
func SoleWriter(client *dynamodb.Client, partition string) *dynamodb.Client {
	s := &soleWriter{partition: partition, written: map[string]bool{}}
	return dynamodb.New(client.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
			return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("sole", s.answerOrForward), middleware.After)
		})
	})
}

type soleWriter struct {
	partition string

	mu           sync.Mutex
	written      map[string]bool
	wroteUnknown bool // a call may have written partitions that its input does not show
}

func (s *soleWriter) answerOrForward(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
	middleware.InitializeOutput, middleware.Metadata, error,
) {
	if q, ok := in.Parameters.(*dynamodb.QueryInput); ok {
		if s.neverWritten(q) {
			return middleware.InitializeOutput{Result: &dynamodb.QueryOutput{}}, middleware.Metadata{}, nil
		}
		return next.HandleInitialize(ctx, in)
	}
	s.recordWrite(in.Parameters)
	return next.HandleInitialize(ctx, in)
}

// neverWritten reports whether the partition that a query reads was never written.
func (s *soleWriter) neverWritten(q *dynamodb.QueryInput) bool {
	pk, ok := q.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS)
	if !ok || q.IndexName != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.wroteUnknown && !s.written[pk.Value]
}

func (s *soleWriter) recordWrite(in any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch in := in.(type) {
	case *dynamodb.PutItemInput:
		s.addPartition(in.Item)
	case *dynamodb.UpdateItemInput:
		s.addPartition(in.Key)
	case *dynamodb.TransactWriteItemsInput:
		for _, it := range in.TransactItems {
			if it.Put != nil {
				s.addPartition(it.Put.Item)
			}
			if it.Update != nil {
				s.addPartition(it.Update.Key)
			}
		}
	case *dynamodb.BatchWriteItemInput:
		for _, requests := range in.RequestItems {
			for _, r := range requests {
				if r.PutRequest != nil {
					s.addPartition(r.PutRequest.Item)
				}
			}
		}
	case *dynamodb.BatchExecuteStatementInput, *dynamodb.ExecuteStatementInput, *dynamodb.ExecuteTransactionInput,
		*dynamodb.ImportTableInput, *dynamodb.RestoreTableFromBackupInput, *dynamodb.RestoreTableToPointInTimeInput:
		s.wroteUnknown = true
	}
}

func (s *soleWriter) addPartition(it map[string]types.AttributeValue) {
	if pk, ok := it[s.partition].(*types.AttributeValueMemberS); ok {
		s.written[pk.Value] = true
		return
	}
	s.wroteUnknown = true
}
