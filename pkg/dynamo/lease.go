package dynamo

import (
	"context"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
)

// Leases divide periodic work among replicas: the replica that holds the lease with a name does
// that work. They only avoid duplicate work, since clocks may differ and a holder may stop at any
// point. So the work must be safe when two replicas do it at once.
type Leases struct {
	Client *dynamodb.Client
	Table  string        // its key attributes are the strings PK and SK
	Owner  string        // unique for the process
	Life   time.Duration // how long a lease lasts unless it is renewed
	Now    func() time.Time
}

// Acquire makes l.Owner the holder of a lease, or renews it. ok is false if another owner has it.
func (l Leases) Acquire(ctx context.Context, name string) (ok bool, err error) {
	now := l.Now()
	_, err = l.Client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                &l.Table,
		Key:                      Item{"PK": String("LEASE#" + name), "SK": String("LEASE")},
		UpdateExpression:         aws.String("SET #owner = :me, #until = :until, entityType = :type"),
		ConditionExpression:      aws.String("attribute_not_exists(PK) OR #owner = :me OR #until < :now"),
		ExpressionAttributeNames: map[string]string{"#owner": "owner", "#until": "until"},
		ExpressionAttributeValues: Item{
			":me": String(l.Owner), ":now": Number(now.UnixMilli()), ":until": Number(now.Add(l.Life).UnixMilli()), ":type": String("LEASE"),
		},
	})
	if Contended(err) {
		return false, nil
	}
	return err == nil, Err(err)
}
