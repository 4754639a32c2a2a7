// Package dynamotest gives tests tables of their own on DynamoDB Local.
package dynamotest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/filelock"
)

// databases is the number of databases over which tests spread their tables. DynamoDB Local has a
// database per region, and one thread for each.
const databases = 4

// Tables returns a configuration whose table prefix no other running test has, and a client. When
// the test ends, every table with the prefix is deleted. If the test is killed, the next test with
// the same prefix deletes its tables.
func Tables(t testing.TB) (dynamo.Config, *dynamodb.Client) {
	t.Helper()
	number := claimNumber(t)
	cfg := dynamo.Config{
		Region:   fmt.Sprintf("test-%d", number%databases),
		Endpoint: backendtest.Dynamo(t),
		Prefix:   fmt.Sprintf("test-%d-%d", os.Getuid(), number),
	}
	client, err := dynamo.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	deleteTables(t, client, cfg.Prefix+"-")
	t.Cleanup(func() { deleteTables(t, client, cfg.Prefix+"-") })
	return cfg, client
}

func deleteTables(t testing.TB, client *dynamodb.Client, prefix string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pages := dynamodb.NewListTablesPaginator(client, &dynamodb.ListTablesInput{})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			t.Errorf("list tables: %v", err)
			return
		}
		for _, name := range page.TableNames {
			if !strings.HasPrefix(name, prefix) {
				continue
			}
			if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				t.Errorf("delete table %s: %v", name, err)
			}
		}
	}
}

// claimNumber reserves, until the test ends, the lowest number that no other running test of this
// user has. Table names are reused because DynamoDB Local keeps each SQL statement that it has
// prepared, and goes through all of them when a table is deleted: after 2,000 tables with new names
// a deletion takes 8 ms instead of 2.
func claimNumber(t testing.TB) (number int) {
	t.Helper()
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("urr-test-tables-%d", os.Getuid()))
	for number = 1; ; number++ {
		unlock, taken, err := filelock.TryLock(filepath.Join(dir, strconv.Itoa(number)))
		if err != nil {
			t.Fatalf("reserve a number for test tables: %v", err)
		}
		if taken {
			t.Cleanup(unlock)
			return number
		}
	}
}
