// Package sqs opens SQS clients and makes FIFO queues, each with its dead-letter queue.
package sqs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/aws/smithy-go"

	"urr.guru/pkg/config"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/internal/awsconf"
)

// Config holds the address of SQS and the queue for the announcements of admissions.
type Config struct {
	// Region is the AWS region.
	Region string `env:"AWS_REGION, default=ap-northeast-2"`
	// Endpoint is the URL of a local substitute; empty = AWS, with the process's own credentials.
	Endpoint string `env:"SQS_ENDPOINT"`
	// Enabled announces admissions on the queue; it needs QueueURL.
	Enabled bool `env:"SQS_ENABLED"`
	// QueueURL names a FIFO queue: it ends in .fifo.
	QueueURL string `env:"SQS_QUEUE_URL"`
}

// Open makes an SQS client. It fails if Enabled is set without a queue URL.
func Open(ctx context.Context, cfg Config) (*sqs.Client, error) {
	if cfg.Enabled && cfg.QueueURL == "" {
		return nil, config.Missing("SQS_QUEUE_URL", "must be the queue's URL when SQS_ENABLED is true")
	}
	ac, err := awsconf.Load(ctx, cfg.Region, cfg.Endpoint)
	if err != nil {
		return nil, err
	}
	return sqs.NewFromConfig(ac), nil
}

// Queue describes a queue for EnsureFIFO.
type Queue struct {
	// Name is the queue's name without the suffix .fifo.
	Name string
	// Visibility is how long a received message stays hidden, up to 12 h.
	Visibility time.Duration
	// MaxReceives is the number of receives after which SQS dead-letters a message, 1–1000.
	MaxReceives int
	// HighThroughput lets AWS limit each message group instead of the queue; messages are then
	// deduplicated within their group. ElasticMQ refuses it.
	HighThroughput bool
}

// EnsureFIFO creates the queue <name>.fifo and its dead-letter queue <name>-dlq.fifo, both keeping
// messages for 14 days, unless they exist, and returns the queue's URL. It changes the attributes
// of an existing queue to those of q.
func EnsureFIFO(ctx context.Context, client *sqs.Client, q Queue) (url string, err error) {
	const days14 = "1209600"
	dlq, err := ensureQueue(ctx, client, q.Name+"-dlq.fifo", map[string]string{
		string(types.QueueAttributeNameMessageRetentionPeriod): days14,
	})
	if err != nil {
		return "", err
	}
	arn, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &dlq, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameQueueArn},
	})
	if err != nil {
		return "", Err(fmt.Errorf("attributes of %s-dlq.fifo: %w", q.Name, err))
	}
	policy, err := json.Marshal(map[string]string{
		"deadLetterTargetArn": arn.Attributes[string(types.QueueAttributeNameQueueArn)],
		"maxReceiveCount":     strconv.Itoa(q.MaxReceives),
	})
	if err != nil {
		return "", fmt.Errorf("redrive policy: %w", err)
	}
	attributes := map[string]string{
		string(types.QueueAttributeNameMessageRetentionPeriod): days14,
		string(types.QueueAttributeNameVisibilityTimeout):      strconv.Itoa(int(q.Visibility.Seconds())),
		string(types.QueueAttributeNameRedrivePolicy):          string(policy),
	}
	if q.HighThroughput {
		attributes[string(types.QueueAttributeNameDeduplicationScope)] = "messageGroup"
		attributes[string(types.QueueAttributeNameFifoThroughputLimit)] = "perMessageGroupId"
	}
	return ensureQueue(ctx, client, q.Name+".fifo", attributes)
}

func ensureQueue(ctx context.Context, client *sqs.Client, name string, attributes map[string]string) (string, error) {
	if got, err := client.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &name}); err == nil {
		_, err = client.SetQueueAttributes(ctx, &sqs.SetQueueAttributesInput{QueueUrl: got.QueueUrl, Attributes: attributes})
		if err != nil {
			return "", Err(fmt.Errorf("attributes of %s: %w", name, err))
		}
		return *got.QueueUrl, nil
	}
	create := map[string]string{string(types.QueueAttributeNameFifoQueue): "true"}
	for k, v := range attributes {
		create[k] = v
	}
	made, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: create})
	if err != nil {
		return "", Err(fmt.Errorf("create queue %s: %w", name, err))
	}
	return *made.QueueUrl, nil
}

// Err converts errors of the client to the platform's: throttling and an unavailable or failing SQS
// become errs.ErrUnavailable; all other errors are returned unchanged.
func Err(err error) error {
	var known *errs.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var api smithy.APIError
	var network net.Error
	switch {
	case errors.As(err, &api):
		if api.ErrorFault() != smithy.FaultServer && api.ErrorCode() != "RequestThrottled" && api.ErrorCode() != "ThrottlingException" {
			return err
		}
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
	default:
		return err
	}
	return errs.ErrUnavailable.Wrap(err)
}
