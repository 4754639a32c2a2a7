package awsproxy_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	ddb "github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/dynamo/dynamotest/strict"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/testkit"
	"urr.guru/scripts/awsproxy"
)

// proxiedQueue is a queue behind a proxy, with a client whose caller name is "me".
type proxiedQueue struct {
	*awsproxy.Proxy

	client *sqs.Client
	url    string
}

func setup(t *testing.T, start func(string) (*awsproxy.Proxy, error)) *proxiedQueue {
	t.Helper()
	cfg, _ := sqstest.Queue(t)
	p, err := start(cfg.Endpoint)
	require.NoError(t, err)
	t.Cleanup(p.Close)
	return &proxiedQueue{Proxy: p, url: cfg.QueueURL, client: sqs.New(sqs.Options{
		Region: "local", BaseEndpoint: aws.String(p.URL("me")), Retryer: aws.NopRetryer{},
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})}
}

// send sends one batch of messages of two requests, and returns the ids of accepted messages.
func (w *proxiedQueue) send(t *testing.T, ids ...string) (accepted []string, err error) {
	t.Helper()
	var entries []types.SendMessageBatchRequestEntry
	for _, id := range ids {
		entries = append(entries, types.SendMessageBatchRequestEntry{
			Id: aws.String(id), MessageBody: aws.String(fmt.Sprintf(`{"members": [{"requestId": %q}, {"requestId": %q}]}`, id, id+"-2")), MessageGroupId: aws.String("g"), MessageDeduplicationId: aws.String(id),
			MessageAttributes: map[string]types.MessageAttributeValue{"gen": {DataType: aws.String("Number"), StringValue: aws.String("1")}},
		})
	}
	got, err := w.client.SendMessageBatch(t.Context(), &sqs.SendMessageBatchInput{QueueUrl: &w.url, Entries: entries})
	if err != nil {
		return nil, err
	}
	require.Len(t, ids, len(got.Successful)+len(got.Failed))
	for _, ok := range got.Successful {
		accepted = append(accepted, *ok.Id)
	}
	return accepted, nil
}

func (w *proxiedQueue) receive(t *testing.T) []string {
	t.Helper()
	seqs, err := w.await(t.Context(), 0)
	require.NoError(t, err)
	return seqs
}

// await receives messages, and waits at most the given seconds for the first. For each message it
// returns the position in the queue of its first request.
func (w *proxiedQueue) await(ctx context.Context, seconds int32) (seqs []string, err error) {
	got, err := w.client.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &w.url, MaxNumberOfMessages: 10, WaitTimeSeconds: seconds,
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
	})
	if err != nil {
		return nil, err
	}
	for _, m := range got.Messages {
		seqs = append(seqs, m.Attributes["SequenceNumber"]+".00")
	}
	return seqs, nil
}

func TestRecordsSequenceNumbers(t *testing.T) {
	t.Parallel()
	w := setup(t, awsproxy.New)
	accepted, err := w.send(t, "a", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"a", "b"}, accepted)
	_, err = w.send(t, "b", "c")
	require.NoError(t, err)
	sent := w.Sent()
	require.Len(t, sent["b"], 1, "sent twice, queued once")
	require.Equal(t, []string{sent["a"][0], sent["b"][0], sent["c"][0]}, w.receive(t))
	require.Equal(t, strings.TrimSuffix(sent["a"][0], ".00")+".01", sent["a-2"][0], "in the same message")
	calls, faults := w.Calls()
	require.Equal(t, map[string]int{"SendMessageBatch": 2, "ReceiveMessage": 1}, calls)
	require.Zero(t, faults)
}

func TestFaultsOfTheQueue(t *testing.T) {
	t.Parallel()
	w := setup(t, awsproxy.New)
	fault := awsproxy.Fault{}
	w.Use(func(c awsproxy.Call) awsproxy.Fault {
		require.Equal(t, "me", c.Caller)
		return fault
	})
	fault.Cut = true
	_, err := w.send(t, "cut")
	require.Error(t, err)
	fault = awsproxy.Fault{Lost: true}
	_, err = w.send(t, "lost")
	require.Error(t, err)
	fault = awsproxy.Unavailable()
	_, err = w.send(t, "unavailable")
	require.ErrorContains(t, err, "injected")
	fault = awsproxy.Fault{Refuse: true}
	accepted, err := w.send(t, "refused", "taken")
	require.NoError(t, err)
	require.Equal(t, []string{"taken"}, accepted)
	fault = awsproxy.Fault{Swallow: true}
	accepted, err = w.send(t, "swallowed")
	require.NoError(t, err)
	require.Equal(t, []string{"swallowed"}, accepted)
	require.True(t, w.Swallowed("swallowed"))
	require.False(t, w.Swallowed("taken"))
	sent := w.Sent()
	require.Len(t, sent, 2*2)
	want := []string{sent["lost"][0], sent["taken"][0]}
	fault = awsproxy.Fault{Repeat: 2}
	require.Equal(t, want, w.receive(t))
	fault = awsproxy.Fault{}
	require.Equal(t, want, w.receive(t), "again")
	require.Equal(t, want, w.receive(t), "and again")
	require.Empty(t, w.receive(t))
	_, faults := w.Calls()
	require.Equal(t, 6, faults)
}

// A receiver that waits gets messages that are sent while it waits; all counts as one call.
func TestCallersWait(t *testing.T) {
	t.Parallel()
	w := setup(t, awsproxy.NewCounter)
	var received []string
	var waiting errgroup.Group
	waiting.Go(func() (err error) {
		received, err = w.await(t.Context(), 20)
		return err
	})
	testkit.Until(t, func() bool { return w.CallsSince(nil, "ReceiveMessage") == 1 })
	send := func(id string) { // one at a time: a waiting receiver may get only the first of a batch
		accepted, err := w.send(t, id)
		require.NoError(t, err)
		require.Equal(t, []string{id}, accepted)
	}
	send("a")
	require.NoError(t, waiting.Wait())
	require.Len(t, received, 1)
	send("b")
	received, err := w.await(t.Context(), 1)
	require.NoError(t, err)
	require.Empty(t, received, "a message of the group is being received")
	require.Empty(t, w.Sent(), "a counter records nothing")
	require.Equal(t, 2, w.CallsSince(nil, "SendMessageBatch"))
}

// The services' DynamoDB client recognizes the injected errors like those of DynamoDB itself.
func TestFaultsOfTheStore(t *testing.T) {
	t.Parallel()
	cfg, _ := dynamotest.Tables(t)
	p, err := awsproxy.New(cfg.Endpoint)
	require.NoError(t, err)
	defer p.Close()
	cfg.Endpoint = p.URL("me")
	client, err := dynamo.Open(t.Context(), cfg)
	require.NoError(t, err)
	table := cfg.Table("t")
	require.NoError(t, dynamo.EnsureTable(t.Context(), client, dynamo.Table{
		Name: table, Partition: dynamo.Key{Name: "PK", Type: ddb.ScalarAttributeTypeS}, Sort: dynamo.Key{Name: "SK", Type: ddb.ScalarAttributeTypeS},
	}))
	write := func(fault func(awsproxy.Call) awsproxy.Fault) error {
		p.Use(fault)
		put := func(pk string) ddb.TransactWriteItem {
			return ddb.TransactWriteItem{Put: &ddb.Put{TableName: &table, Item: dynamo.Item{"PK": dynamo.String(pk), "SK": dynamo.String("s")}}}
		}
		_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
			TransactItems: []ddb.TransactWriteItem{put("a"), put("b")},
		}, dynamo.NoRetry)
		return err
	}
	require.NoError(t, write(nil))
	cancelSecond := func(reason string) func(awsproxy.Call) awsproxy.Fault {
		return func(c awsproxy.Call) awsproxy.Fault { return awsproxy.Canceled(c, c.FindItem("b", "s"), reason) }
	}
	canceled, ok := dynamo.Canceled(write(cancelSecond(awsproxy.Conflict)))
	require.True(t, ok)
	require.True(t, canceled.ConflictsOnly())
	canceled, ok = dynamo.Canceled(write(cancelSecond(awsproxy.Validation)))
	require.True(t, ok)
	i, invalid := canceled.FirstInvalid()
	require.True(t, invalid)
	require.Equal(t, 1, i)
	require.ErrorContains(t, write(func(awsproxy.Call) awsproxy.Fault { return awsproxy.Throttled() }), "ProvisionedThroughputExceeded")
	require.ErrorContains(t, write(func(awsproxy.Call) awsproxy.Fault { return awsproxy.Unavailable() }), "500")
	require.Equal(t, -1, awsproxy.Call{Name: "GetItem"}.FindItem("", ""))
	require.Equal(t, awsproxy.Fault{}, awsproxy.Canceled(awsproxy.Call{}, 0, awsproxy.Conflict), "there is no such item")
	require.Equal(t, http.StatusInternalServerError, awsproxy.Unavailable().Status)
}

// Each statement of a batch can be made to fail, after its execution or without it.
func TestFaultsOfStatements(t *testing.T) {
	t.Parallel()
	cfg, direct := dynamotest.Tables(t)
	p, err := awsproxy.New(cfg.Endpoint)
	require.NoError(t, err)
	defer p.Close()
	cfg.Endpoint = p.URL("me")
	client, err := dynamo.Open(t.Context(), cfg)
	require.NoError(t, err)
	table := cfg.Table("t")
	require.NoError(t, dynamo.EnsureTable(t.Context(), direct, dynamo.Table{Name: table, Partition: dynamo.Key{Name: "PK", Type: ddb.ScalarAttributeTypeS}}))
	keys := make([]dynamo.Item, 4)
	for i := range keys {
		keys[i] = dynamo.Item{"PK": dynamo.String(fmt.Sprint(i))}
	}
	p.Use(func(c awsproxy.Call) awsproxy.Fault {
		require.Equal(t, 4, c.Statements())
		return awsproxy.Fault{Statements: map[int]awsproxy.StatementFault{1: {Code: awsproxy.Internal}, 2: {Code: awsproxy.Internal, Executed: true}}}
	})
	results := dynamo.InsertNew(t.Context(), client, table, keys)
	require.NoError(t, results[0])
	require.ErrorContains(t, results[1], awsproxy.Internal)
	require.ErrorContains(t, results[2], awsproxy.Internal)
	require.NoError(t, results[3])
	stored, err := dynamo.BatchGet(t.Context(), direct, table, keys)
	require.NoError(t, err)
	require.ElementsMatch(t, []dynamo.Item{keys[0], keys[2], keys[3]}, stored)
	_, faults := p.Calls()
	require.Equal(t, 1, faults)
	p.Use(func(awsproxy.Call) awsproxy.Fault {
		return awsproxy.Fault{Statements: map[int]awsproxy.StatementFault{0: {Code: awsproxy.Internal}}}
	})
	require.ErrorContains(t, dynamo.InsertNew(t.Context(), client, table, keys[:1])[0], awsproxy.Internal, "nothing is passed on")
	require.Zero(t, awsproxy.Call{Name: "GetItem"}.Statements())
}

// A strict proxy passes on what DynamoDB at AWS would accept, and answers the rest itself.
func TestStrictProxy(t *testing.T) {
	t.Parallel()
	cfg, direct := dynamotest.Tables(t)
	table := cfg.Table("t")
	require.NoError(t, dynamo.EnsureTable(t.Context(), direct, dynamo.Table{Name: table, Partition: dynamo.Key{Name: "PK", Type: ddb.ScalarAttributeTypeS}}))
	rules := strict.New(strict.Limits{Fraction: 1e-9, NoDelay: true}) // no partition recovers during the test
	server := httptest.NewServer(awsproxy.NewStrict(cfg.Endpoint, rules))
	defer server.Close()
	cfg.Endpoint = server.URL + "/dynamodb"
	client, err := dynamo.Open(t.Context(), cfg)
	require.NoError(t, err)
	keys := make([]dynamo.Item, 25)
	for i := range keys {
		keys[i] = dynamo.Item{"PK": dynamo.String(fmt.Sprint(i))}
	}
	put := func() (unprocessed int) {
		requests := make([]ddb.WriteRequest, len(keys))
		for i := range keys {
			requests[i].PutRequest = &ddb.PutRequest{Item: keys[i]}
		}
		out, err := client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]ddb.WriteRequest{table: requests}}, dynamo.NoRetry)
		if dynamo.Throttled(err) {
			return len(keys)
		}
		require.NoError(t, err)
		return len(out.UnprocessedItems[table])
	}
	require.Equal(t, 21, put(), "each of the four partitions accepts one")
	require.Equal(t, 25, put())
	stored, err := dynamo.BatchGet(t.Context(), direct, table, keys)
	require.NoError(t, err)
	require.Len(t, stored, 4)
	found, err := client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]ddb.KeysAndAttributes{table: {Keys: keys}}})
	require.NoError(t, err)
	require.LessOrEqual(t, len(found.Responses[table]), 4)
	_, err = client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("absent"), Key: keys[0]})
	require.ErrorContains(t, err, "ResourceNotFoundException")
}
