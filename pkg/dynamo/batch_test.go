package dynamo_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
)

// onlyPK returns the keys k0 to k<n-1>.
func onlyPK(n int) []dynamo.Item {
	keys := make([]dynamo.Item, n)
	for i := range keys {
		keys[i] = dynamo.Item{"PK": dynamo.String(fmt.Sprint("k", i))}
	}
	return keys
}

func TestBatchDelete(t *testing.T) {
	t.Parallel()
	cfg, client := dynamotest.Tables(t)
	table := cfg.Table("batch")
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, dynamo.Table{Name: table, Partition: dynamo.Key{Name: "PK", Type: "S"}}))
	keys := onlyPK(60)
	for _, k := range keys {
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: k})
		require.NoError(t, err)
	}
	require.NoError(t, dynamo.BatchDelete(t.Context(), client, table, keys[:59]))
	remaining, err := dynamo.BatchGet(t.Context(), client, table, keys)
	require.NoError(t, err)
	require.Equal(t, keys[59:], remaining)
	require.NoError(t, dynamo.BatchDelete(t.Context(), client, table, keys), "absent items are no error")
	require.NoError(t, dynamo.BatchDelete(t.Context(), client, table, nil))
}

// DynamoDB may leave keys of a batch unprocessed. The client sends them again.
func TestUnprocessedKeysAreTriedAgain(t *testing.T) {
	t.Parallel()
	var calls, unprocessed atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "application/x-amz-json-1.0")
		if calls.Add(1) > unprocessed.Load() {
			body = []byte(`{"RequestItems": {}}`)
		}
		_, _ = fmt.Fprintf(w, `{"UnprocessedItems": %s}`, body[len(`{"RequestItems":`):len(body)-1])
	}))
	defer server.Close()
	client, err := dynamo.Open(t.Context(), dynamo.Config{Region: "local", Endpoint: server.URL})
	require.NoError(t, err)
	unprocessed.Store(2)
	require.NoError(t, dynamo.BatchDelete(t.Context(), client, "batch", onlyPK(1)))
	require.EqualValues(t, 3, calls.Load())
	unprocessed.Store(100)
	require.ErrorContains(t, dynamo.BatchDelete(t.Context(), client, "batch", onlyPK(1)), "keys of batch stay unprocessed")
}
