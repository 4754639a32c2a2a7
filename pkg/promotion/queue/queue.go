// Package queue is the FIFO queue of requests to promotions, from ingest to worker, and its
// dead-letter queue.
package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/google/uuid"

	"urr.guru/pkg/errs"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/sqs"
)

const (
	// MaxBatch is the largest number of messages in one call to SQS.
	MaxBatch = 10
	// MaxRequests is the largest number of requests in one call, all of one group.
	MaxRequests = MaxBatch * promotion.MaxMembers
	// maxReceives is the number of receives after which SQS moves a message to the dead-letter queue.
	maxReceives = 100
	// longPoll is how long Receive waits for the first message.
	longPoll = 5 * time.Second
	// defaultTimeout is the time limit of a call.
	defaultTimeout = 5 * time.Second
)

// Names of message attributes, with which operators recognise messages without reading bodies.
const (
	attributeRequestID = "requestId" // of the first request in the message
	attributeGen       = "gen"       // of the first request in the message
	attributeMembers   = "members"   // the number of requests in the message
)

// Config has the name of the queue of requests.
type Config struct {
	// Name is the queue's name without the suffix .fifo; the dead-letter queue has the suffix
	// -dlq.fifo.
	Name string `env:"REQUESTS_QUEUE, default=urr-requests"`
	// CallTimeout is the time limit of a call. 0, as everywhere except in tests, means 5 s.
	CallTimeout time.Duration
}

// Ensure creates the queue and its dead-letter queue, or changes the attributes of existing ones.
// visibility is how long a received message stays hidden from other workers, in whole seconds.
// highThroughput (sqs.Queue) is for AWS; ElasticMQ refuses it.
func Ensure(ctx context.Context, client *awssqs.Client, cfg Config, visibility time.Duration, highThroughput bool) error {
	_, err := sqs.EnsureFIFO(ctx, client, sqs.Queue{
		Name: cfg.Name, Visibility: visibility, MaxReceives: maxReceives, HighThroughput: highThroughput,
	})
	return err
}

// Queue sends and receives messages through SQS. It looks up its URL at the first call, so that a
// process can start while SQS does not answer.
type Queue struct {
	client *awssqs.Client
	name   string
	limit  time.Duration // time limit of a call

	mu  sync.Mutex
	url string
}

// New returns the queue from which the worker service receives requests.
func New(client *awssqs.Client, cfg Config) *Queue {
	return newQueue(client, cfg, ".fifo")
}

// NewDeadLetters returns the queue of the messages that could not be processed.
func NewDeadLetters(client *awssqs.Client, cfg Config) *Queue {
	return newQueue(client, cfg, "-dlq.fifo")
}

func newQueue(client *awssqs.Client, cfg Config, suffix string) *Queue {
	return &Queue{client: client, name: cfg.Name + suffix, limit: cmp.Or(cfg.CallTimeout, defaultTimeout)}
}

func (q *Queue) queueURL(ctx context.Context) (*string, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.url == "" {
		got, err := q.client.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: &q.name})
		if err != nil {
			return nil, sqs.Err(fmt.Errorf("queue %s: %w", q.name, err))
		}
		q.url = *got.QueueUrl
	}
	return &q.url, nil
}

// Send sends requests, those of one group together in messages of up to 9, ten messages a call. It
// returns an error for each request that SQS did not accept; when SQS accepts none of a call, it
// sends no more. After a time-out SQS may have accepted a message too; sending it again within five
// minutes changes nothing.
func (q *Queue) Send(ctx context.Context, out []promotion.Outgoing) []error {
	results := make([]error, len(out))
	var down error
	for chunk := range slices.Chunk(pack(out), MaxBatch) {
		answers := slices.Repeat([]error{down}, len(chunk))
		if down == nil {
			entries := make([]types.SendMessageBatchRequestEntry, len(chunk))
			for n, indexes := range chunk {
				entries[n] = newEntry(n, out, indexes)
			}
			if answers = q.send(ctx, entries); !slices.Contains(answers, nil) {
				down = answers[0]
			}
		}
		for n, indexes := range chunk {
			for _, i := range indexes {
				results[i] = answers[n]
			}
		}
	}
	return results
}

// pack divides requests among messages, in their order within each group. A message is given as the
// indexes, in out, of its requests.
func pack(out []promotion.Outgoing) (messages [][]int) {
	last := map[string]int{} // the last message of each group
	for i, m := range out {
		n, found := last[m.Group()]
		if !found || len(messages[n]) == promotion.MaxMembers {
			n = len(messages)
			last[m.Group()], messages = n, append(messages, nil)
		}
		messages[n] = append(messages[n], i)
	}
	return messages
}

func newEntry(n int, out []promotion.Outgoing, indexes []int) types.SendMessageBatchRequestEntry {
	outgoing, members := make([]promotion.Outgoing, len(indexes)), make([]promotion.Message, len(indexes))
	for at, i := range indexes {
		outgoing[at], members[at] = out[i], out[i].Message
	}
	attribute := func(kind, value string) types.MessageAttributeValue {
		return types.MessageAttributeValue{DataType: &kind, StringValue: &value}
	}
	return types.SendMessageBatchRequestEntry{
		Id: aws.String(strconv.Itoa(n)), MessageBody: aws.String(promotion.Body(members...)),
		MessageGroupId: aws.String(members[0].Group()), MessageDeduplicationId: aws.String(promotion.DeduplicationID(outgoing)),
		MessageAttributes: map[string]types.MessageAttributeValue{
			attributeRequestID: attribute("String", members[0].RequestID),
			attributeGen:       attribute("Number", members[0].GenText()),
			attributeMembers:   attribute("Number", strconv.Itoa(len(members))),
		},
	}
}

// Forward sends a received message on unchanged, such as one that cannot be read. id becomes its
// deduplication id and its group, so that it waits for no other message.
func (q *Queue) Forward(ctx context.Context, m promotion.Delivery, id string) error {
	return q.send(ctx, []types.SendMessageBatchRequestEntry{{
		Id: aws.String("0"), MessageBody: aws.String(m.Body), MessageGroupId: &id, MessageDeduplicationId: &id,
	}})[0]
}

func (q *Queue) send(ctx context.Context, entries []types.SendMessageBatchRequestEntry) []error {
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	results := make([]error, len(entries))
	fail := func(err error) []error {
		for i := range results {
			results[i] = err
		}
		return results
	}
	url, err := q.queueURL(ctx)
	if err != nil {
		return fail(err)
	}
	got, err := q.client.SendMessageBatch(ctx, &awssqs.SendMessageBatchInput{QueueUrl: url, Entries: entries})
	if err != nil {
		return fail(sqs.Err(fmt.Errorf("send to %s: %w", q.name, err)))
	}
	fail(errs.ErrUnavailable.Wrap(errors.New("the queue said nothing of the message")))
	for _, ok := range got.Successful {
		if i, err := strconv.Atoi(aws.ToString(ok.Id)); err == nil && i < len(results) {
			results[i] = nil
		}
	}
	for _, f := range got.Failed {
		if i, err := strconv.Atoi(aws.ToString(f.Id)); err == nil && i < len(results) {
			results[i] = errs.ErrUnavailable.Wrap(fmt.Errorf("%s: %s", aws.ToString(f.Code), aws.ToString(f.Message)))
		}
	}
	return results
}

// Receive waits some seconds for messages and returns at most 10, in the order of their groups. The
// end of ctx does not end the call: SQS would carry it out all the same, and hide messages that
// nobody gets. A caller that stops must release the messages returned.
func (q *Queue) Receive(ctx context.Context) ([]promotion.Delivery, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longPoll+q.limit)
	defer cancel()
	url, err := q.queueURL(ctx)
	if err != nil {
		return nil, err
	}
	got, err := q.client.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{
		QueueUrl: url, MaxNumberOfMessages: MaxBatch, WaitTimeSeconds: int32(longPoll / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		ReceiveRequestAttemptId:     aws.String(uuid.NewString()), // after a lost answer the SDK's retry gets the same messages
	})
	if err != nil {
		return nil, sqs.Err(fmt.Errorf("receive from %s: %w", q.name, err))
	}
	out := make([]promotion.Delivery, len(got.Messages))
	for i, m := range got.Messages {
		out[i] = promotion.Delivery{
			Body: aws.ToString(m.Body), ID: aws.ToString(m.MessageId), Handle: aws.ToString(m.ReceiptHandle),
			Group:          m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
			SequenceNumber: m.Attributes[string(types.MessageSystemAttributeNameSequenceNumber)],
			SentAt:         parseNumber(m.Attributes[string(types.MessageSystemAttributeNameSentTimestamp)]),
			Receives:       int(parseNumber(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)])),
		}
	}
	return out, nil
}

// Delete removes received messages from the queue. A message that is not removed is received again,
// which changes nothing.
func (q *Queue) Delete(ctx context.Context, messages []promotion.Delivery) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	entries := make([]types.DeleteMessageBatchRequestEntry, len(messages))
	for i, m := range messages {
		entries[i] = types.DeleteMessageBatchRequestEntry{Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(m.Handle)}
	}
	url, err := q.queueURL(ctx)
	if err != nil {
		return err
	}
	got, err := q.client.DeleteMessageBatch(ctx, &awssqs.DeleteMessageBatchInput{QueueUrl: url, Entries: entries})
	return batchError("delete from "+q.name, got, err)
}

// Release makes received messages visible again after some time, in whole seconds. The last message
// is released first, since nobody receives a message while an earlier one of its group is hidden.
func (q *Queue) Release(ctx context.Context, messages []promotion.Delivery, after time.Duration) error {
	if len(messages) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	entries := make([]types.ChangeMessageVisibilityBatchRequestEntry, len(messages))
	for i, m := range messages {
		entries[len(messages)-1-i] = types.ChangeMessageVisibilityBatchRequestEntry{
			Id: aws.String(strconv.Itoa(i)), ReceiptHandle: aws.String(m.Handle), VisibilityTimeout: int32(after.Seconds()),
		}
	}
	url, err := q.queueURL(ctx)
	if err != nil {
		return err
	}
	_, err = q.client.ChangeMessageVisibilityBatch(ctx, &awssqs.ChangeMessageVisibilityBatchInput{QueueUrl: url, Entries: entries})
	return batchError("release in "+q.name, nil, err)
}

func batchError(operation string, got *awssqs.DeleteMessageBatchOutput, err error) error {
	if err != nil {
		return sqs.Err(fmt.Errorf("%s: %w", operation, err))
	}
	if got != nil && len(got.Failed) > 0 {
		return fmt.Errorf("%s: %d messages: %s", operation, len(got.Failed), aws.ToString(got.Failed[0].Code))
	}
	return nil
}

// Depth returns how many messages are in the queue, including hidden ones (approximately).
func (q *Queue) Depth(ctx context.Context) (int64, error) {
	ctx, cancel := context.WithTimeout(ctx, q.limit)
	defer cancel()
	url, err := q.queueURL(ctx)
	if err != nil {
		return 0, err
	}
	counts := []types.QueueAttributeName{
		types.QueueAttributeNameApproximateNumberOfMessages, types.QueueAttributeNameApproximateNumberOfMessagesNotVisible,
		types.QueueAttributeNameApproximateNumberOfMessagesDelayed,
	}
	got, err := q.client.GetQueueAttributes(ctx, &awssqs.GetQueueAttributesInput{QueueUrl: url, AttributeNames: counts})
	if err != nil {
		return 0, sqs.Err(fmt.Errorf("depth of %s: %w", q.name, err))
	}
	var sum int64
	for _, name := range counts {
		n, err := strconv.ParseInt(got.Attributes[string(name)], 10, 64)
		if err != nil {
			return 0, fmt.Errorf("depth of %s: %w", q.name, err)
		}
		sum += n
	}
	return sum, nil
}

// parseNumber reads the number in an attribute of SQS; 0 if it cannot be read.
func parseNumber(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}
