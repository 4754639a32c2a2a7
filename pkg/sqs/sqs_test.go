package sqs_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/sqs"
	"urr.guru/pkg/sqs/sqstest"
)

func TestFIFOQueueDeduplicatesAndKeepsTheOrder(t *testing.T) {
	t.Parallel()
	cfg, client := sqstest.Queue(t)
	require.True(t, strings.HasSuffix(cfg.QueueURL, ".fifo"))
	for _, id := range []string{"1", "2", "1", "3"} {
		_, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{
			QueueUrl: &cfg.QueueURL, MessageBody: aws.String(id), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String(id),
		})
		require.NoError(t, err)
	}
	got, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: &cfg.QueueURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 2,
	})
	require.NoError(t, err)
	var bodies []string
	for _, m := range got.Messages {
		bodies = append(bodies, *m.Body)
	}
	require.Equal(t, []string{"1", "2", "3"}, bodies)
}

func TestEnsureFIFOIsRepeatable(t *testing.T) {
	t.Parallel()
	cfg, client := sqstest.Queue(t)
	name := sqstest.Name(cfg)
	url, err := sqs.EnsureFIFO(t.Context(), client, sqs.Queue{Name: name, Visibility: 77 * time.Second, MaxReceives: 3})
	require.NoError(t, err)
	require.Equal(t, cfg.QueueURL, url)
	got, err := client.GetQueueAttributes(t.Context(), &awssqs.GetQueueAttributesInput{
		QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll},
	})
	require.NoError(t, err)
	require.Equal(t, "77", got.Attributes["VisibilityTimeout"])
	require.Contains(t, got.Attributes["RedrivePolicy"], name+"-dlq.fifo")
}

func TestEnabledRequiresQueueURL(t *testing.T) {
	t.Parallel()
	_, err := sqs.Open(t.Context(), sqs.Config{Enabled: true})
	require.ErrorContains(t, err, "SQS_QUEUE_URL")
}

func TestUnreachableServiceIsUnavailable(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	client, err := sqs.Open(t.Context(), sqs.Config{Region: "local", Endpoint: "http://" + l.Addr().String()})
	require.NoError(t, err)
	_, err = client.ListQueues(t.Context(), &awssqs.ListQueuesInput{}, func(o *awssqs.Options) { o.Retryer = aws.NopRetryer{} })
	require.ErrorIs(t, sqs.Err(err), errs.ErrUnavailable)
	require.NoError(t, sqs.Err(nil))
}
