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

// Warm raises the warm throughput of the table of an opening, and of its indexes, to the opening's
// loads. Nothing is lowered, which AWS refuses, and an index that the table lacks is left out. It
// returns what was asked for; AWS raises it within minutes, at most hours, and bills what is added
// once. A table that AWS is changing is refused: repeat the call later.
func Warm(ctx context.Context, client *dynamodb.Client, cfg Config, o plan.Opening) (asked string, err error) {
	loads := map[string]plan.Load{}
	in := &dynamodb.UpdateTableInput{}
	for _, l := range o.Loads() {
		loads[l.Index], in.TableName = l, aws.String(cfg.Table(l.Table))
	}
	now, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: in.TableName})
	if err != nil {
		return "", fmt.Errorf("describe table %s: %w", *in.TableName, err)
	}
	var texts []string
	raise := func(index string, reads, writes *int64) *types.WarmThroughput {
		r, w := max(int64(math.Ceil(loads[index].Reads)), aws.ToInt64(reads)), max(int64(math.Ceil(loads[index].Writes)), aws.ToInt64(writes))
		if r == aws.ToInt64(reads) && w == aws.ToInt64(writes) {
			return nil
		}
		texts = append(texts, fmt.Sprintf("%s: %d write and %d read units per second", strings.TrimSpace(*in.TableName+" "+index), w, r))
		to := &types.WarmThroughput{WriteUnitsPerSecond: &w}
		if r > 0 {
			to.ReadUnitsPerSecond = &r
		}
		return to
	}
	is := cmp.Or(now.Table.WarmThroughput, &types.TableWarmThroughputDescription{}) // servers other than AWS describe none
	in.WarmThroughput = raise("", is.ReadUnitsPerSecond, is.WriteUnitsPerSecond)
	for _, x := range now.Table.GlobalSecondaryIndexes {
		is := cmp.Or(x.WarmThroughput, &types.GlobalSecondaryIndexWarmThroughputDescription{})
		if to := raise(*x.IndexName, is.ReadUnitsPerSecond, is.WriteUnitsPerSecond); to != nil {
			update := types.UpdateGlobalSecondaryIndexAction{IndexName: x.IndexName, WarmThroughput: to}
			in.GlobalSecondaryIndexUpdates = append(in.GlobalSecondaryIndexUpdates, types.GlobalSecondaryIndexUpdate{Update: &update})
		}
	}
	if len(texts) == 0 {
		return *in.TableName + " is warm enough", nil
	}
	if _, err := client.UpdateTable(ctx, in); err != nil {
		return "", fmt.Errorf("warm table %s: %w", *in.TableName, err)
	}
	return "asked for " + strings.Join(texts, "; "), nil
}
