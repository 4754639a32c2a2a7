package dynamo

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"urr.guru/pkg/loop"
)

// MaxInsert is DynamoDB's limit of statements in one call.
const MaxInsert = 25

const (
	insertTries = 5
	insertPause = 25 * time.Millisecond // minimum pause after the first try; it doubles with each try
)

// ErrExists is the result of an insert when an item with the same key exists.
var ErrExists = errors.New("an item with this key exists")

// InsertNew stores 1 to MaxInsert items with the same attributes in one call that is not atomic.
// The result at i is nil if items[i] was stored, ErrExists if its key existed, and another error if
// it may or may not be stored. Throttled items are sent again, at most 4 times. When a response is
// lost, the SDK's retry can return ErrExists for an item that this call stored: the caller must
// compare the stored item with its own.
func InsertNew(ctx context.Context, client *dynamodb.Client, table string, items []Item) []error {
	results := make([]error, len(items))
	names := slices.Sorted(maps.Keys(items[0]))
	statement := aws.String(insertStatement(table, names))
	left := make([]int, len(items))
	for i := range left {
		left[i] = i
	}
	pause := insertPause
	for try := 1; ; try++ {
		left = insertOnce(ctx, client, statement, names, items, left, results)
		if len(left) == 0 || try == insertTries || !loop.Sleep(ctx, pause+rand.N(pause)) { //nolint:gosec // jitter
			return results
		}
		pause *= 2
	}
}

// insertStatement is the PartiQL of an insert, which fails if the key exists.
func insertStatement(table string, names []string) string {
	return fmt.Sprintf(`INSERT INTO "%s" VALUE {'%s': ?}`, table, strings.Join(names, "': ?, '"))
}

// insertOnce inserts items[i] for each i in pending and sets results[i]. It returns each throttled i.
func insertOnce(ctx context.Context, client *dynamodb.Client, statement *string, names []string, items []Item, pending []int, results []error) (throttled []int) {
	statements := make([]types.BatchStatementRequest, len(pending))
	values := make([]types.AttributeValue, 0, len(pending)*len(names))
	for n, i := range pending {
		for _, name := range names {
			values = append(values, items[i][name])
		}
		statements[n] = types.BatchStatementRequest{Statement: statement, Parameters: values[n*len(names) : (n+1)*len(names)]}
	}
	out, err := client.BatchExecuteStatement(ctx, &dynamodb.BatchExecuteStatementInput{Statements: statements})
	if err == nil && len(out.Responses) != len(pending) {
		err = fmt.Errorf("%d statements have %d responses", len(pending), len(out.Responses))
	}
	for n, i := range pending {
		results[i] = err
		if err != nil || out.Responses[n].Error == nil {
			continue
		}
		failed := out.Responses[n].Error
		if failed.Code == types.BatchStatementErrorCodeEnumDuplicateItem {
			results[i] = ErrExists
			continue
		}
		if refusal(string(failed.Code)) == refusedThrottled { // other failures are not repeated
			throttled = append(throttled, i)
		}
		results[i] = fmt.Errorf("insert: %s: %s", failed.Code, aws.ToString(failed.Message))
	}
	return throttled
}
