package dynamo

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/plan"
)

// Warm raises the warm throughput of a table and of its indexes to the loads, by the names of the
// indexes ("" is the table). Nothing is lowered, which AWS refuses, and an index that the table lacks
// is left out. It returns what was asked for; AWS raises it within minutes, at most hours, and bills
// what is added once. A table that AWS is changing is refused: repeat the call later.
func Warm(ctx context.Context, client *dynamodb.Client, table string, loads map[string]plan.Load) (asked string, err error) {
	now, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &table})
	if err != nil {
		return "", fmt.Errorf("describe table %s: %w", table, err)
	}
	in := &dynamodb.UpdateTableInput{TableName: &table}
	var texts []string
	raise := func(name string, index string, reads, writes *int64) *types.WarmThroughput {
		to := raised(loads[index], reads, writes)
		if to != nil {
			texts = append(texts, fmt.Sprintf("%s: %d write and %d read units per second", name, aws.ToInt64(to.WriteUnitsPerSecond), aws.ToInt64(to.ReadUnitsPerSecond)))
		}
		return to
	}
	is := now.Table.WarmThroughput
	if is == nil { // not AWS
		is = &types.TableWarmThroughputDescription{}
	}
	in.WarmThroughput = raise(table, "", is.ReadUnitsPerSecond, is.WriteUnitsPerSecond)
	for _, x := range now.Table.GlobalSecondaryIndexes {
		is := x.WarmThroughput
		if is == nil {
			is = &types.GlobalSecondaryIndexWarmThroughputDescription{}
		}
		if to := raise(table+" "+*x.IndexName, *x.IndexName, is.ReadUnitsPerSecond, is.WriteUnitsPerSecond); to != nil {
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, types.GlobalSecondaryIndexUpdate{
				Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: x.IndexName, WarmThroughput: to},
			})
		}
	}
	if len(texts) == 0 {
		return table + " is warm enough", nil
	}
	if _, err := client.UpdateTable(ctx, in); err != nil {
		return "", fmt.Errorf("warm table %s: %w", table, err)
	}
	return "asked for " + strings.Join(texts, "; "), nil
}

// raised returns the throughput to ask for, or nil if what there is suffices.
func raised(need plan.Load, reads, writes *int64) *types.WarmThroughput {
	wantReads, wantWrites := int64(math.Ceil(need.Reads)), int64(math.Ceil(need.Writes))
	if wantReads <= aws.ToInt64(reads) && wantWrites <= aws.ToInt64(writes) {
		return nil
	}
	to := &types.WarmThroughput{}
	if n := max(wantReads, aws.ToInt64(reads)); n > 0 {
		to.ReadUnitsPerSecond = &n
	}
	if n := max(wantWrites, aws.ToInt64(writes)); n > 0 {
		to.WriteUnitsPerSecond = &n
	}
	return to
}
