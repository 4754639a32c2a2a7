package dynamo

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/dynamo"
)

// Names of the tables, after the installation's prefix.
const (
	countersTable  = "vwr-counters"
	positionsTable = "vwr-positions"
)

// positionIndex finds the visitor of a position. Only operators use it, by hand.
const positionIndex = "eventId-position-index"

// Migrate creates both tables unless they exist. It is idempotent and may run concurrently.
func Migrate(ctx context.Context, db *dynamodb.Client, cfg dynamo.Config) error {
	event := dynamo.Key{Name: attrEvent, Type: types.ScalarAttributeTypeS}
	if err := dynamo.EnsureTable(ctx, db, dynamo.Table{
		Name: cfg.Table(countersTable), Partition: event, PITR: cfg.PITR,
	}); err != nil {
		return err
	}
	return dynamo.EnsureTable(ctx, db, dynamo.Table{
		Name:      cfg.Table(positionsTable),
		Partition: event,
		Sort:      dynamo.Key{Name: attrRequest, Type: types.ScalarAttributeTypeS},
		Indexes: []dynamo.Index{{
			Name: positionIndex, Partition: event, Sort: dynamo.Key{Name: attrPosition, Type: types.ScalarAttributeTypeN},
		}},
		TTL:  attrTTL,
		PITR: cfg.PITR,
	})
}
