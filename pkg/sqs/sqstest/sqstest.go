// Package sqstest gives tests queues of their own on ElasticMQ.
package sqstest

import (
	"context"
	"crypto/rand"
	"strings"
	"testing"
	"time"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"urr.guru/pkg/backendtest"
	"urr.guru/pkg/sqs"
)

// Queue makes a FIFO queue with a dead-letter queue, both deleted when the test ends, and returns a
// configuration with its URL.
func Queue(t testing.TB) (sqs.Config, *awssqs.Client) {
	t.Helper()
	cfg := sqs.Config{Region: "elasticmq", Endpoint: backendtest.SQS(t)}
	client, err := sqs.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	name := "test-" + strings.ToLower(rand.Text()[:16])
	cfg.QueueURL, err = sqs.EnsureFIFO(t.Context(), client, sqs.Queue{Name: name, Visibility: 30 * time.Second, MaxReceives: 100})
	if err != nil {
		t.Fatal(err)
	}
	cfg.Enabled = true
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, queue := range []string{name + ".fifo", name + "-dlq.fifo"} {
			got, err := client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: &queue})
			if err == nil {
				_, err = client.DeleteQueue(ctx, &awssqs.DeleteQueueInput{QueueUrl: got.QueueUrl})
			}
			if err != nil {
				t.Errorf("delete queue %s: %v", queue, err)
			}
		}
	})
	return cfg, client
}

// Name returns the name of the queue that Queue made, without the suffix .fifo.
func Name(cfg sqs.Config) string {
	return strings.TrimSuffix(cfg.QueueURL[strings.LastIndex(cfg.QueueURL, "/")+1:], ".fifo")
}
