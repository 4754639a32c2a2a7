// Package dynamotest gives tests tables of their own on DynamoDB Local.
package dynamotest

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/dynamo"
)

// databases is how many databases share the tests' tables. DynamoDB Local has one for each region,
// and a single thread for each database.
const databases = 4

// Tables returns a configuration with a prefix that no other running test has, and a client. Every
// table that begins with the prefix is deleted when the test ends. If the test is killed, the next
// one that gets the prefix deletes them.
func Tables(t testing.TB) (dynamo.Config, *dynamodb.Client) {
	t.Helper()
	number := claim(t)
	cfg := dynamo.Config{
		Region:   fmt.Sprintf("test-%d", number%databases),
		Endpoint: backendtest.Dynamo(t),
		Prefix:   fmt.Sprintf("test-%d-%d", os.Getuid(), number),
	}
	client, err := dynamo.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	sweep(t, client, cfg.Prefix+"-")
	t.Cleanup(func() { sweep(t, client, cfg.Prefix+"-") })
	return cfg, client
}

func sweep(t testing.TB, client *dynamodb.Client, prefix string) {
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
