package dynamo

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"

	"urr.guru/pkg/telemetry"
)

var refusedTotal = telemetry.Counter( //nolint:gochecknoglobals // metrics are registered once per process
	"urr_dynamodb_refused_total",
	"Reads and writes that DynamoDB refused, each attempt of them: throttled, or in conflict with a transaction on the same item.", "table", "reason")

// Values of the label reason.
const (
	refusedThrottled = "throttled"
	refusedConflict  = "conflict"
)

// refusal returns the reason that an error code stands for; empty: another error. Codes of calls end
// with Exception, those of an item's or a statement's error do not.
func refusal(code string) string {
	switch strings.TrimSuffix(strings.TrimSuffix(code, "Exception"), "Error") {
	case "Throttling", "ProvisionedThroughputExceeded", "RequestLimitExceeded":
		return refusedThrottled
	case string(ReasonConflict):
		return refusedConflict
	}
	return ""
}

type inputKey struct{}

// watchRefused counts what DynamoDB refuses, in each attempt of a call.
func watchRefused(s *middleware.Stack) error {
	return errors.Join(
		s.Initialize.Add(middleware.InitializeMiddlewareFunc("keep input",
			func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				return next.HandleInitialize(middleware.WithStackValue(ctx, inputKey{}, in.Parameters), in)
			}), middleware.Before),
		s.Deserialize.Add(middleware.DeserializeMiddlewareFunc("count refused",
			func(ctx context.Context, in middleware.DeserializeInput, next middleware.DeserializeHandler) (middleware.DeserializeOutput, middleware.Metadata, error) {
				out, meta, err := next.HandleDeserialize(ctx, in)
				countRefused(middleware.GetStackValue(ctx, inputKey{}), out.Result, err)
				return out, meta, err //nolint:wrapcheck // the call's own
			}), middleware.Before))
}

func countRefused(in, out any, err error) {
	add := func(table, code string, n int) {
		if reason := refusal(code); reason != "" && n > 0 {
			refusedTotal.WithLabelValues(table, reason).Add(float64(n))
		}
	}
	tables := tablesOf(in)
	if canceled, ok := Canceled(err); ok {
		for i, r := range canceled.Reasons[:min(len(canceled.Reasons), len(tables))] {
			add(tables[i], string(r.Code), 1)
		}
		return
	}
	var api smithy.APIError
	if errors.As(err, &api) {
		slices.Sort(tables)
		for _, table := range slices.Compact(tables) {
			add(table, api.ErrorCode(), 1)
		}
	}
	switch out := out.(type) {
	case *dynamodb.BatchExecuteStatementOutput:
		for i, r := range out.Responses[:min(len(out.Responses), len(tables))] {
			if r.Error != nil {
				add(tables[i], string(r.Error.Code), 1)
			}
		}
	case *dynamodb.BatchGetItemOutput:
		for table, left := range out.UnprocessedKeys {
			add(table, string(reasonThrottled), len(left.Keys))
		}
	case *dynamodb.BatchWriteItemOutput:
		for table, left := range out.UnprocessedItems {
			add(table, string(reasonThrottled), len(left))
		}
	}
}

// tablesOf returns the tables of a call: of a transaction and of statements the table of each.
func tablesOf(in any) (tables []string) {
	switch in := in.(type) {
	case *dynamodb.GetItemInput:
		return []string{aws.ToString(in.TableName)}
	case *dynamodb.QueryInput:
		return []string{aws.ToString(in.TableName)}
	case *dynamodb.PutItemInput:
		return []string{aws.ToString(in.TableName)}
	case *dynamodb.UpdateItemInput:
		return []string{aws.ToString(in.TableName)}
	case *dynamodb.DeleteItemInput:
		return []string{aws.ToString(in.TableName)}
	case *dynamodb.BatchGetItemInput:
		return slices.Collect(maps.Keys(in.RequestItems))
	case *dynamodb.BatchWriteItemInput:
		return slices.Collect(maps.Keys(in.RequestItems))
	case *dynamodb.BatchExecuteStatementInput:
		for _, s := range in.Statements {
			_, rest, _ := strings.Cut(aws.ToString(s.Statement), `"`) // see insertStatement
			table, _, _ := strings.Cut(rest, `"`)
			tables = append(tables, table)
		}
	case *dynamodb.TransactWriteItemsInput:
		for _, it := range in.TransactItems {
			tables = append(tables, tableOf(it))
		}
	}
	return tables
}

func tableOf(it types.TransactWriteItem) string {
	switch {
	case it.Put != nil:
		return aws.ToString(it.Put.TableName)
	case it.Update != nil:
		return aws.ToString(it.Update.TableName)
	case it.Delete != nil:
		return aws.ToString(it.Delete.TableName)
	case it.ConditionCheck != nil:
		return aws.ToString(it.ConditionCheck.TableName)
	}
	return ""
}
