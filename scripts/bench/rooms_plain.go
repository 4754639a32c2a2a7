package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/ids"
)

// plainRoom gives positions to one visitor at a time, in the tables of vwr.
type plainRoom struct {
	db                  *dynamodb.Client
	counters, positions string
}

const (
	// nextPosition is the attribute that both vwr and the baseline count positions by.
	nextPosition = "nextPosition"
	// positionsTable has the records of visitors.
	positionsTable = "vwr-positions"
)

// assign takes the next number from the counter and stores the visitor's record.
func (r plainRoom) assign(ctx context.Context, eventID, visitor string) (int64, error) {
	now := time.Now()
	counted, err := r.db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:        &r.counters,
		Key:              pkgdynamo.Item{"eventId": pkgdynamo.String(eventID)},
		UpdateExpression: aws.String("ADD " + nextPosition + " :one SET updatedAt = :now"),
		ExpressionAttributeValues: pkgdynamo.Item{
			":one": pkgdynamo.Number(1), ":now": pkgdynamo.Number(now.UnixMilli()),
		},
		ReturnValues: types.ReturnValueUpdatedNew,
	})
	if err != nil {
		return 0, fmt.Errorf("count: %w", err)
	}
	reader := pkgdynamo.Reader{Item: counted.Attributes}
	position := reader.Number(nextPosition)
	_, err = r.db.PutItem(ctx, &dynamodb.PutItemInput{
		TableName: &r.positions,
		Item: pkgdynamo.Item{
			"eventId": pkgdynamo.String(eventID), "requestId": pkgdynamo.String(ids.NewV7().String()), "position": pkgdynamo.Number(position),
			"userId": pkgdynamo.String(visitor), "activatedAt": pkgdynamo.Number(now.UnixMicro()), "createdAt": pkgdynamo.Number(now.UnixMilli()),
			"ttl": pkgdynamo.Number(now.Add(24 * time.Hour).Unix()),
		},
		ConditionExpression: aws.String("attribute_not_exists(eventId)"),
	})
	return position, errors.Join(reader.Err(), err)
}
