package dynamo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const (
	// activeWait is the longest wait until a new table is active, and then until AWS has prepared its
	// backups (some ten seconds each). It also ends the backupTries attempts to enable them.
	activeWait  = 2 * time.Minute
	backupTries = 100
	backupPause = 2 * time.Second // maximum pause between two tries
)

// Key is one attribute of a table's key: the partition key or the sort key.
type Key struct {
	Name string
	Type types.ScalarAttributeType
}

// Index is a global secondary index that contains all attributes.
type Index struct {
	Name      string
	Partition Key
	Sort      Key // optional; if there is none, its name is empty
}

// Table describes a table for EnsureTable.
type Table struct {
	Name      string // in full, as Config.Table returns it
	Partition Key
	Sort      Key // optional; if there is none, its name is empty
	Indexes   []Index
	TTL       string // attribute with the expiry time in seconds since the epoch; empty: none
	PITR      bool   // enables point-in-time recovery
}

// EnsureTable creates the table (PAY_PER_REQUEST) unless it exists, waits until it is active, and
// enables its TTL and point-in-time recovery. Any number of processes may call it at once. It does
// not compare the keys of an existing table.
func EnsureTable(ctx context.Context, client *dynamodb.Client, t Table) error {
	return ensureTable(ctx, client, t, backupPause)
}

func ensureTable(ctx context.Context, client *dynamodb.Client, t Table, pause time.Duration) error {
	_, err := client.CreateTable(ctx, t.createInput())
	var exists *types.ResourceInUseException
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("create table %s: %w", t.Name, err)
	}
	waiter := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay = 100 * time.Millisecond })
	if err := waiter.Wait(ctx, &dynamodb.DescribeTableInput{TableName: &t.Name}, activeWait); err != nil {
		return fmt.Errorf("wait for table %s: %w", t.Name, err)
	}
	if t.TTL != "" {
		if err := ensureTTL(ctx, client, t); err != nil {
			return fmt.Errorf("ttl of table %s: %w", t.Name, err)
		}
	}
	if t.PITR {
		if err := ensurePITR(ctx, client, t, pause); err != nil {
			return fmt.Errorf("point-in-time recovery of table %s: %w", t.Name, err)
		}
	}
	return nil
}

// ensurePITR enables point-in-time recovery. It retries while AWS refuses that because it still
// prepares the backups of a new table.
func ensurePITR(ctx context.Context, client *dynamodb.Client, t Table, pause time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, activeWait)
	defer cancel()
	_, err := client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{
		TableName:                        &t.Name,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)},
	}, func(o *dynamodb.Options) {
		retryer := retry.NewStandard(func(so *retry.StandardOptions) { so.MaxAttempts, so.MaxBackoff = backupTries, pause })
		o.Retryer = retry.AddWithErrorCodes(retryer, (*types.ContinuousBackupsUnavailableException)(nil).ErrorCode())
	})
	return err
}

// ensureTTL enables the deletion of expired items. It reads the state first, because enabling twice
// is an error and AWS allows one change per hour. It reads it again after a refusal, since another
// process may have enabled it.
func ensureTTL(ctx context.Context, client *dynamodb.Client, t Table) error {
	on, err := hasTTL(ctx, client, t)
	if on || err != nil {
		return err
	}
	_, refused := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &t.Name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: &t.TTL, Enabled: aws.Bool(true)},
	})
	if refused == nil {
		return nil
	}
	if on, err = hasTTL(ctx, client, t); on || err != nil {
		return err
	}
	return refused
}

// hasTTL reports whether expired items are deleted. It fails when an attribute other than t.TTL has
// the expiry time.
func hasTTL(ctx context.Context, client *dynamodb.Client, t Table) (bool, error) {
	out, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &t.Name})
	if err != nil {
		return false, err
	}
	d := out.TimeToLiveDescription
	if d == nil || d.TimeToLiveStatus != types.TimeToLiveStatusEnabled && d.TimeToLiveStatus != types.TimeToLiveStatusEnabling {
		return false, nil
	}
	if got := aws.ToString(d.AttributeName); got != t.TTL {
		return false, fmt.Errorf("is on attribute %s, not %s", got, t.TTL)
	}
	return true, nil
}

func (t Table) createInput() *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName:   &t.Name,
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   keySchema(t.Partition, t.Sort),
	}
	declared := make(map[string]bool)
	declare := func(keys ...Key) {
		for _, k := range keys {
			if k.Name != "" && !declared[k.Name] {
				declared[k.Name] = true
				in.AttributeDefinitions = append(in.AttributeDefinitions,
					types.AttributeDefinition{AttributeName: aws.String(k.Name), AttributeType: k.Type})
			}
		}
	}
	declare(t.Partition, t.Sort)
	for _, x := range t.Indexes {
		declare(x.Partition, x.Sort)
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{
			IndexName:  aws.String(x.Name),
			KeySchema:  keySchema(x.Partition, x.Sort),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		})
	}
	return in
}

func keySchema(partition, sort Key) []types.KeySchemaElement {
	schema := []types.KeySchemaElement{{AttributeName: aws.String(partition.Name), KeyType: types.KeyTypeHash}}
	if sort.Name != "" {
		schema = append(schema, types.KeySchemaElement{AttributeName: aws.String(sort.Name), KeyType: types.KeyTypeRange})
	}
	return schema
}
