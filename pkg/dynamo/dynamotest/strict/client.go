package strict

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"urr.guru/pkg/dynamo"
)

// Open makes a DynamoDB client like dynamo.Open, whose calls are answered by a Server in this
// process instead of one at an address.
func Open(ctx context.Context, s Server) (*dynamodb.Client, error) {
	client, err := dynamo.Open(ctx, dynamo.Config{Region: "local", Endpoint: "http://dynamodb.invalid"})
	if err != nil {
		return nil, fmt.Errorf("strict: %w", err)
	}
	return dynamodb.New(client.Options(), func(o *dynamodb.Options) { o.HTTPClient = doer(s) }), nil
}

type doer Server

func (s doer) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("strict: %w", err)
	}
	_, operation, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	a, err := s(r.Context(), operation, body)
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: a.Status, Header: http.Header{"Content-Type": {"application/x-amz-json-1.0"}},
		Body: io.NopCloser(bytes.NewReader(a.Body)), ContentLength: int64(len(a.Body)), Request: r,
	}, nil
}
