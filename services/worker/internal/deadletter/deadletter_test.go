package deadletter_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/stretchr/testify/require"

	pkgdynamo "urr.guru/pkg/dynamo"
	"urr.guru/pkg/dynamo/dynamotest"
	"urr.guru/pkg/errs"
	"urr.guru/pkg/kafka"
	"urr.guru/pkg/kafka/kafkatest"
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/services/worker/internal/deadletter"
	"urr.guru/services/worker/internal/dynamo"
	workerkafka "urr.guru/services/worker/internal/kafka"
)

func newStore(t *testing.T) *dynamo.Store {
	t.Helper()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	return dynamo.New(db, tables, time.Now, func(int) {})
}

func ids(letters []deadletter.Letter) []string {
	var out []string
	for _, l := range letters {
		out = append(out, l.ID)
	}
	return out
}

// admissions is a queue of admissions with what takes them.
type admissions struct {
	*deadletter.Admissions

	live, dead *queue.Queue
	send       func(body, id string)
	counted    map[string]int
	log        bytes.Buffer
}

func newAdmissions(t *testing.T, store deadletter.Store) *admissions {
	t.Helper()
	cfg, client := sqstest.Queue(t)
	named := queue.Config{Name: sqstest.Name(cfg)}
	a := &admissions{live: queue.New(client, named), dead: queue.NewDeadLetters(client, named), counted: map[string]int{}}
	a.send = func(body, id string) {
		_, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{
			QueueUrl: &cfg.QueueURL, MessageBody: &body, MessageGroupId: aws.String("ev"), MessageDeduplicationId: &id,
		})
		require.NoError(t, err)
	}
	a.Admissions = deadletter.NewAdmissions(store, a.live, func(action string) { a.counted[action]++ }, slog.New(slog.NewTextHandler(&a.log, nil)))
	return a
}

// take handles everything that is in a queue.
func take(t *testing.T, from *queue.Queue, handle func(context.Context, []promotion.Delivery) error) {
	t.Helper()
	for {
		depth, err := from.Depth(t.Context())
		require.NoError(t, err)
		if depth == 0 {
			return
		}
		batch, err := from.Receive(t.Context())
		require.NoError(t, err)
		require.NoError(t, handle(t.Context(), batch))
	}
}

// Admissions are logged and counted; what cannot be read is kept. The token appears nowhere.
func TestAdmissions(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	a := newAdmissions(t, store)
	a.send(`{"action":"admitted","eventId":"ev","userId":"ann","entryToken":"secret-token","timestamp":1707948000000}`, "1")
	a.send(`{"action":"expelled","eventId":"ev","userId":"bob","entryToken":"secret-token"}`, "2")
	a.send(`"secret-token`, "3")
	a.send(`{"action":"admitted","eventId":"ev","entryToken":"secret-token"}`, "4")
	take(t, a.live, a.Handle)
	require.Equal(t, map[string]int{"admitted": 1, "other": 1, "unreadable": 2}, a.counted)
	require.Contains(t, a.log.String(), "event_id=ev user_id=ann")
	require.NoError(t, a.dead.Forward(t.Context(), promotion.Delivery{
		Body: `{"action":"admitted","eventId":"ev","userId":"eve","entryToken":"secret-token"}`,
	}, "moved-by-sqs"))
	take(t, a.dead, a.HandleDead(a.dead))

	queues := deadletter.New(a.Admissions, nil)
	var all []deadletter.Letter
	for cursor := ""; ; {
		page, next, err := queues.List(t.Context(), "admissions", cursor, 2)
		require.NoError(t, err)
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	require.Len(t, all, 3)
	require.Contains(t, all[0].Error, "RECEIVED_TOO_OFTEN", "the latest first")
	require.JSONEq(t, `{"action":"admitted","eventId":"ev","userId":"eve"}`, all[0].Body)
	require.NotContains(t, fmt.Sprint(all), "secret")
	require.NotContains(t, a.log.String(), "secret")

	done, err := queues.Redrive(t.Context(), "admissions", nil)
	require.NoError(t, err)
	require.Equal(t, []string{all[0].ID}, done.Redriven)
	require.Len(t, done.Refused, 2, "unreadable")
	take(t, a.live, a.Handle)
	require.Equal(t, map[string]int{"admitted": 2, "other": 1, "unreadable": 3}, a.counted)
	done, err = queues.Redrive(t.Context(), "admissions", []string{all[0].ID, "1-unknown"})
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Refused: []string{all[0].ID, "1-unknown"}}, done)
}

// Dead letters of a topic are listed, and each is put back once, for the group that failed.
func TestTopics(t *testing.T) {
	t.Parallel()
	const topic = "payment-events"
	cfg := kafkatest.Config(t)
	cfg.TopicPrefix = kafkatest.Name("worker") + "."
	require.NoError(t, kafka.EnsureTopics(t.Context(), cfg, kafka.Topic{Name: topic, Partitions: 1}))
	onBroker := cfg.TopicPrefix + topic
	t.Cleanup(func() { kafkatest.Delete(t, onBroker, onBroker+kafka.DLQSuffix) })
	producer := kafkatest.ProducerOf(t, cfg)
	for i := range 3 {
		require.NoError(t, producer.Publish(t.Context(), kafka.Record{
			Topic: topic + kafka.DLQSuffix, Key: fmt.Append(nil, "k", i), Value: []byte("bad \xff"), Headers: map[string]string{
				kafka.HeaderID: fmt.Sprint("e", i), kafka.HeaderType: "PAYMENT_CONFIRMED", kafka.HeaderGroup: "ticket-service-group",
				kafka.HeaderError: "no such order", kafka.HeaderOrigin: fmt.Sprint(topic, "/0/", i),
			},
		}))
	}
	store := newStore(t)
	letters := workerkafka.NewLetters(kafka.NewDeadLetters(cfg), producer)
	queues := deadletter.New(nil, deadletter.Topics(letters, store, topic, "reward-events"))

	page, next, err := queues.List(t.Context(), topic, "", 2)
	require.NoError(t, err)
	require.Equal(t, []string{"0-2", "0-1"}, ids(page))
	require.Equal(t, deadletter.Letter{
		ID: "0-2", Group: "ticket-service-group", Key: "k2", Type: "PAYMENT_CONFIRMED", Body: "bad \uFFFD", Error: "no such order",
		Origin: topic + "/0/2", At: page[0].At,
	}, page[0])
	page, next, err = queues.List(t.Context(), topic, next, 2)
	require.NoError(t, err)
	require.Equal(t, []string{"0-0"}, ids(page))
	require.Empty(t, next)

	done, err := queues.Redrive(t.Context(), topic, []string{"0-1", "0-1", "0-9", "7-0", "x"})
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Redriven: []string{"0-1"}, Refused: []string{"0-1", "0-9", "7-0", "x"}}, done)
	done, err = queues.Redrive(t.Context(), topic, nil)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{Redriven: []string{"0-0", "0-2"}}, done, "the earliest first")
	done, err = queues.Redrive(t.Context(), topic, nil)
	require.NoError(t, err)
	require.Equal(t, deadletter.Result{}, done, "each once")
	var keys []string
	for _, r := range kafkatest.Read(t, onBroker, 3) {
		keys = append(keys, string(r.Key)+" for "+r.Headers[kafka.HeaderGroup]+" "+r.EventID)
	}
	require.Equal(t, []string{"k1 for ticket-service-group e1", "k0 for ticket-service-group e0", "k2 for ticket-service-group e2"}, keys)
	page, _, err = queues.List(t.Context(), topic, "", 10)
	require.NoError(t, err)
	for _, l := range page {
		require.NotZero(t, l.RedrivenAt, l.ID)
	}

	page, _, err = queues.List(t.Context(), "reward-events", "", 10)
	require.NoError(t, err)
	require.Empty(t, page, "a topic that does not exist")
	_, _, err = queues.List(t.Context(), topic, "nonsense", 10)
	require.ErrorIs(t, err, errs.ErrInvalidCursor)
	_, err = queues.Redrive(t.Context(), "some-events", nil)
	require.ErrorIs(t, err, errs.ErrNotFound)
}
