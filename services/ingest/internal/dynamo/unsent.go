package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/promotion/table"
	"urr.guru/services/ingest/internal/request"
)

var _ request.UnsentStore = (*Store)(nil)

func (s *Store) Unsent(ctx context.Context) ([]request.UnsentPromotion, error) {
	var all []request.UnsentPromotion
	for it, err := range s.All(ctx, table.PartitionQuery{PK: table.Unsent}) {
		if err != nil {
			return nil, err
		}
		d := dynamo.Reader{Item: it}
		all = append(all, request.UnsentPromotion{EventID: table.ListedEvent(it), DrainedAt: d.Number(table.UnsentDrainedAt)})
		if err := d.Err(); err != nil { // the promotion counts as not drained
			s.ReportSkipped(ctx, it, err)
		}
	}
	return all, nil
}

func (s *Store) AddUnsent(ctx context.Context, event string) error {
	_, err := s.Client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &s.Table, Item: table.UnsentItem(event)})
	return dynamo.Err(err)
}

func (s *Store) SetDrained(ctx context.Context, event string, at int64) error {
	_, err := s.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: &s.Table, Key: table.UnsentKey(event), UpdateExpression: aws.String("SET " + table.UnsentDrainedAt + " = :at"),
		ConditionExpression:       aws.String("attribute_exists(" + table.PK + ")"),
		ExpressionAttributeValues: dynamo.Item{":at": dynamo.Number(at)},
	})
	if dynamo.ConditionFailed(err) { // another replica has removed the promotion
		return nil
	}
	return dynamo.Err(err)
}

func (s *Store) RemoveUnsent(ctx context.Context, p request.UnsentPromotion) error {
	_, err := s.Client.DeleteItem(ctx, &dynamodb.DeleteItemInput{
		TableName: &s.Table, Key: table.UnsentKey(p.EventID),
		ConditionExpression:       aws.String(table.UnsentDrainedAt + " = :read"),
		ExpressionAttributeValues: dynamo.Item{":read": dynamo.Number(p.DrainedAt)},
	})
	if dynamo.ConditionFailed(err) { // the promotion was added again, or removed
		return nil
	}
	return dynamo.Err(err)
}
