package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/fairdraw/beacon"
)

func TestBeaconIsServed(t *testing.T) {
	t.Parallel()
	secret := strings.Repeat("s", 32)
	b, err := openBeacon(secret, "7s")
	require.NoError(t, err)
	server := httptest.NewServer(routes(http.NotFoundHandler(), http.NotFoundHandler(), b, nil, nil, nil))
	defer server.Close()
	client, err := beacon.NewClient(b.Chain(), []string{server.URL + "/beacon"}, server.Client())
	require.NoError(t, err)
	require.NoError(t, client.Check(t.Context(), time.Now()))
	got, err := client.Get(t.Context(), 1)
	require.NoError(t, err)
	again, err := openBeacon(secret, "7s")
	require.NoError(t, err)
	require.Equal(t, again.Round(1), got, "after a restart too")
	require.EqualValues(t, 7, b.Chain().Period)
}

func TestBeaconSettings(t *testing.T) {
	t.Parallel()
	b, err := openBeacon("", "")
	require.NoError(t, err)
	require.Nil(t, b)
	for _, period := range []string{"7", "-1s", "1500ms"} {
		_, err = openBeacon(strings.Repeat("s", 32), period)
		require.Error(t, err, period)
	}
	_, err = openBeacon("short", "")
	require.Error(t, err)
}

// Calls to DynamoDB reach the server behind the sandbox.
func TestDynamoDBIsServed(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
		_, _ = fmt.Fprintf(w, `{"__type": "%sException"}`, strings.TrimPrefix(r.Header.Get("X-Amz-Target"), "DynamoDB_20120810."))
	}))
	defer upstream.Close()
	env := map[string]string{"SANDBOX_DYNAMODB_ENDPOINT": upstream.URL, "SANDBOX_DYNAMODB_FRACTION": "0.5"}
	handler, err := openDynamoDB(func(name string) string { return env[name] })
	require.NoError(t, err)
	server := httptest.NewServer(routes(http.NotFoundHandler(), http.NotFoundHandler(), nil, nil, nil, handler))
	defer server.Close()
	client, err := dynamo.Open(t.Context(), dynamo.Config{Region: "local", Endpoint: server.URL + "/dynamodb"})
	require.NoError(t, err)
	_, err = client.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	require.ErrorContains(t, err, "ListTablesException")
	for _, fraction := range []string{"", "x", "0", "1.1"} {
		env["SANDBOX_DYNAMODB_FRACTION"] = fraction
		_, err = openDynamoDB(func(name string) string { return env[name] })
		require.Error(t, err, fraction)
	}
	handler, err = openDynamoDB(func(string) string { return "" })
	require.NoError(t, err)
	require.Nil(t, handler)
}
