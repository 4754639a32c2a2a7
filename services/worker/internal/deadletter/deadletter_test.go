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
	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/promotion/table"
	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/services/worker/internal/deadletter"
	"urr.guru/services/worker/internal/dynamo"
)

func newStore(t *testing.T) *dynamo.Store {
	t.Helper()
	tables, db := dynamotest.Tables(t)
	require.NoError(t, pkgdynamo.EnsureTable(t.Context(), db, table.Table(tables)))
	return dynamo.New(db, tables, time.Now, func(int) {})
}

// admissions is a queue of admissions with its handler.
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
	queueConfig := queue.Config{Name: sqstest.Name(cfg)}
	a := &admissions{live: queue.New(client, queueConfig), dead: queue.NewDeadLetters(client, queueConfig), counted: map[string]int{}}
	a.send = func(body, id string) {
		_, err := client.SendMessage(t.Context(), &awssqs.SendMessageInput{
			QueueUrl: &cfg.QueueURL, MessageBody: &body, MessageGroupId: aws.String("ev"), MessageDeduplicationId: &id,
		})
		require.NoError(t, err)
	}
	a.Admissions = deadletter.NewAdmissions(store, a.live, func(action string) { a.counted[action]++ }, slog.New(slog.NewTextHandler(&a.log, nil)))
	return a
}

// take handles messages until a queue is empty.
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

// Admissions are logged and counted; unreadable messages are kept. The token appears nowhere.
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

	var all []promotion.DeadLetter
	for cursor := ""; ; {
		page, next, err := a.List(t.Context(), cursor, 2)
		require.NoError(t, err)
		all = append(all, page...)
		if cursor = next; cursor == "" {
			break
		}
	}
	require.Len(t, all, 3)
	require.Equal(t, "RECEIVED_TOO_OFTEN", all[0].ErrorCode, "the latest first")
	require.JSONEq(t, `{"action":"admitted","eventId":"ev","userId":"eve"}`, all[0].Body)
	require.NotContains(t, fmt.Sprint(all), "secret")
	require.NotContains(t, a.log.String(), "secret")

	done, err := a.Redrive(t.Context(), nil, "")
	require.NoError(t, err)
	require.Equal(t, deadletter.RedriveResult{Redriven: []string{all[0].ID}, Refused: []string{all[2].ID, all[1].ID}}, done, "two are unreadable")
	take(t, a.live, a.Handle)
	require.Equal(t, map[string]int{"admitted": 2, "other": 1, "unreadable": 3}, a.counted)
	done, err = a.Redrive(t.Context(), []string{all[0].ID, "1-unknown"}, "")
	require.NoError(t, err)
	require.Equal(t, deadletter.RedriveResult{Refused: []string{all[0].ID, "1-unknown"}}, done)
}

// Repeated calls redrive any number of dead letters, the oldest first and each once.
func TestRedriveOldestAdmissions(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	a := newAdmissions(t, store)
	const all = 230
	var want []string
	for i := range all {
		l := promotion.NewDeadLetter(fmt.Sprintf("m%03d", i), time.Now().Add(time.Duration(i-all)*time.Second).UnixMilli())
		l.Queue, l.Body = promotion.AdmissionDeadLetters, fmt.Sprintf(`{"action":"admitted","eventId":"ev","userId":"u%d"}`, i)
		require.NoError(t, store.PutAdmission(t.Context(), l))
		want = append(want, l.ID)
	}
	var redriven []string
	for cursor, calls := "", 0; calls == 0 || cursor != ""; calls++ {
		done, err := a.Redrive(t.Context(), nil, cursor)
		require.NoError(t, err)
		require.LessOrEqual(t, len(done.Redriven), deadletter.MaxRedrives)
		redriven, cursor = append(redriven, done.Redriven...), done.Next
	}
	require.Equal(t, want, redriven)
	done, err := a.Redrive(t.Context(), nil, "")
	require.NoError(t, err)
	require.Equal(t, deadletter.RedriveResult{}, done)
}
