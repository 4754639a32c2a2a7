package dynamo

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/plan"
)

// Warm raises the warm throughput of a table and its indexes to the loads that are expected when a
// sale or promotion opens. It lowers nothing, since AWS refuses that, and skips indexes that the
// table lacks. It returns a text that says what it requested. AWS needs minutes, at most hours, and
// bills the addition once. While AWS changes the table the call fails: repeat it later.
func Warm(ctx context.Context, client *dynamodb.Client, cfg Config, o plan.Opening) (requested string, err error) {
	loads := map[string]plan.Load{}
	in := &dynamodb.UpdateTableInput{}
	for _, l := range o.Loads() {
		loads[l.Index], in.TableName = l, aws.String(cfg.Table(l.Table))
	}
	now, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName})
	if err != nil {
		return "", fmt.Errorf("describe table %s: %w", *in.TableName, err)
	}
	var raised []string
	raise := func(index string, reads, writes *int64) *types.WarmThroughput {
		r, w := max(int64(math.Ceil(loads[index].Reads)), aws.ToInt64(reads)), max(int64(math.Ceil(loads[index].Warm)), aws.ToInt64(writes))
		if r == aws.ToInt64(reads) && w == aws.ToInt64(writes) {
			return nil
		}
		raised = append(raised, fmt.Sprintf("%s: %d write and %d read units per second", strings.TrimSpace(*in.TableName+" "+index), w, r))
		target := &types.WarmThroughput{WriteUnitsPerSecond: &w}
		if r > 0 {
			target.ReadUnitsPerSecond = &r
		}
		return target
	}
	current := cmp.Or(now.Table.WarmThroughput, &types.TableWarmThroughputDescription{}) // may be nil
	in.WarmThroughput = raise("", current.ReadUnitsPerSecond, current.WriteUnitsPerSecond)
	for _, x := range now.Table.GlobalSecondaryIndexes {
		current := cmp.Or(x.WarmThroughput, &types.GlobalSecondaryIndexWarmThroughputDescription{})
		if target := raise(*x.IndexName, current.ReadUnitsPerSecond, current.WriteUnitsPerSecond); target != nil {
			update := types.UpdateGlobalSecondaryIndexAction{IndexName: x.IndexName, WarmThroughput: target}
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, types.GlobalSecondaryIndexUpdate{Update: &update})
		}
	}
	if len(raised) == 0 {
		return *in.TableName + " is warm enough", nil
	}
	if _, err := client.UpdateTable(ctx, in); err != nil {
		return "", fmt.Errorf("warm table %s: %w", *in.TableName, err)
	}
	return "asked for " + strings.Join(raised, "; "), nil
}
