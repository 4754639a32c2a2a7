package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
)

// MaxInsert is DynamoDB's limit of statements in one call.
const MaxInsert = 25

var (
	// ErrExists is the result of an insert when an item with the same key exists.
	ErrExists = errors.New("an item with this key exists")
	// ErrThrottled is the result of an insert that DynamoDB refused for lack of capacity.
	ErrThrottled = errors.New("the insert was throttled")
)

// InsertNew stores 1 to MaxInsert items with the same attributes in one call that is not atomic.
// The result at i is nil if items[i] was stored, ErrExists if its key existed, ErrThrottled if the
// caller should send it again, and another error if it may or may not be stored. When a response is
// lost, a repeated insert can return ErrExists for an item that was stored by the earlier attempt:
// the caller must compare the stored item with its own.
func InsertNew(ctx context.Context, client *dynamodb.Client, table string, items []Item) []error {
	names := slices.Sorted(maps.Keys(items[0]))
	statement := aws.String(insertStatement(table, names))
	statements := make([]types.BatchStatementRequest, len(items))
	values := make([]types.AttributeValue, 0, len(items)*len(names))
	for i, it := range items {
		for _, name := range names {
			values = append(values, it[name])
		}
		statements[i] = types.BatchStatementRequest{Statement: statement, Parameters: values[i*len(names) : (i+1)*len(names)]}
	}
	out, err := client.BatchExecuteStatement(ctx, &dynamodb.BatchExecuteStatementInput{Statements: statements})
	var refused smithy.APIError
	switch {
	case errors.As(err, &refused):
		err = insertError(refused.ErrorCode(), err.Error())
	case err == nil && len(out.Responses) != len(items):
		err = fmt.Errorf("%d statements have %d responses", len(items), len(out.Responses))
	}
	results := slices.Repeat([]error{err}, len(items))
	if err != nil {
		return results
	}
	for i, r := range out.Responses {
		if r.Error != nil {
			results[i] = insertError(string(r.Error.Code), aws.ToString(r.Error.Message))
		}
	}
	return results
}

// insertStatement is the PartiQL of an insert, which fails if the key exists.
func insertStatement(table string, names []string) string {
	return fmt.Sprintf(`INSERT INTO "%s" VALUE {'%s': ?}`, table, strings.Join(names, "': ?, '"))
}

// insertError returns the result of an insert that failed with this error code.
func insertError(code, message string) error {
	switch {
	case code == string(types.BatchStatementErrorCodeEnumDuplicateItem):
		return ErrExists
	case refusal(code) == refusedThrottled:
		return fmt.Errorf("%w: %s: %s", ErrThrottled, code, message)
	}
	return fmt.Errorf("insert: %s: %s", code, message)
}
