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

// positionIndex is the index by which operators, but not this service, find a position's visitor.
const positionIndex = "eventId-position-index"

// PositionIndex says whether a new table of positions has the index. DynamoDB then writes each
// position twice.
type PositionIndex bool

// The values of PositionIndex.
const (
	WithPositionIndex    PositionIndex = true  // lets operators look up positions
	WithoutPositionIndex PositionIndex = false // half the writes
)

// Migrate creates those of the two tables that do not exist. It may run repeatedly and
// concurrently. It neither adds the index to an existing table nor removes it.
func Migrate(ctx context.Context, db *dynamodb.Client, cfg dynamo.Config, index PositionIndex) error {
	event := dynamo.Key{Name: attrEvent, Type: types.ScalarAttributeTypeS}
	if err := dynamo.EnsureTable(ctx, db, dynamo.Table{
		Name: cfg.Table(countersTable), Partition: event, PITR: cfg.PITR,
	}); err != nil {
		return err
	}
	positions := dynamo.Table{
		Name:      cfg.Table(positionsTable),
		Partition: event,
		Sort:      dynamo.Key{Name: attrRequest, Type: types.ScalarAttributeTypeS},
		TTL:       attrTTL,
		PITR:      cfg.PITR,
	}
	if index == WithPositionIndex {
		positions.Indexes = []dynamo.Index{{
			Name: positionIndex, Partition: event, Sort: dynamo.Key{Name: attrPosition, Type: types.ScalarAttributeTypeN},
		}}
	}
	return dynamo.EnsureTable(ctx, db, positions)
}
