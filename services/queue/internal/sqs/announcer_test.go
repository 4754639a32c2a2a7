package sqs_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"github.com/stretchr/testify/require"

	"urr.guru/pkg/sqs/sqstest"
	"urr.guru/pkg/testkit"
	"urr.guru/services/queue/internal/line"
	"urr.guru/services/queue/internal/sqs"
)

// run runs the announcer. The returned function stops it and waits until it has ended.
func run(t *testing.T, a *sqs.Announcer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		require.NoError(t, <-done)
	}
}

// patient ignores the deadline of calls, since SQS may be slow on a busy machine.
type patient struct{ sqs.Sender }

func (p patient) SendMessageBatch(ctx context.Context, in *awssqs.SendMessageBatchInput, opts ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	return p.Sender.SendMessageBatch(context.WithoutCancel(ctx), in, opts...)
}

func TestAdmissionsArriveOnceAndInOrder(t *testing.T) {
	t.Parallel()
	cfg, client := sqstest.Queue(t)
	a := sqs.New(patient{client}, cfg.QueueURL, slog.New(slog.NewTextHandler(t.Output(), nil)))
	announce := func(user int) {
		a.Announce(line.Admission{EventID: "ev", UserID: fmt.Sprintf("u%d", user), EntryToken: "tok", At: time.UnixMilli(1_707_948_000_000)})
	}
	for i := range 10 {
		announce(i)
	}
	run(t, a)() // waiting admissions are sent at the end
	stop := run(t, a)
	defer stop()
	announce(10)
	announce(3) // a repetition within five minutes: SQS drops it
	announce(11)

	var got []types.Message
	testkit.Until(t, func() bool {
		out, err := client.ReceiveMessage(t.Context(), &awssqs.ReceiveMessageInput{
			QueueUrl: &cfg.QueueURL, MaxNumberOfMessages: 10, WaitTimeSeconds: 1,
			MessageSystemAttributeNames: []types.MessageSystemAttributeName{types.MessageSystemAttributeNameAll},
		})
		require.NoError(t, err)
		for _, m := range out.Messages {
			_, err := client.DeleteMessage(t.Context(), &awssqs.DeleteMessageInput{QueueUrl: &cfg.QueueURL, ReceiptHandle: m.ReceiptHandle})
			require.NoError(t, err)
		}
		got = append(got, out.Messages...)
		return len(got) >= 12
	}, "all messages")
	require.Len(t, got, 12)
	for i, m := range got {
		require.JSONEq(t, fmt.Sprintf(
			`{"action":"admitted","eventId":"ev","userId":"u%d","entryToken":"tok","timestamp":1707948000000}`, i), aws.ToString(m.Body))
		require.Equal(t, "ev", m.Attributes["MessageGroupId"])
		require.Equal(t, fmt.Sprintf("u%d:ev", i), m.Attributes["MessageDeduplicationId"])
	}
}

// dead is a fake SQS that does not answer.
type dead struct{ calls chan struct{} }

func (d dead) SendMessageBatch(ctx context.Context, _ *awssqs.SendMessageBatchInput, _ ...func(*awssqs.Options)) (*awssqs.SendMessageBatchOutput, error) {
	select {
	case d.calls <- struct{}{}:
	default:
	}
	<-ctx.Done()
	return nil, errors.New("no answer")
}

func TestADeadQueueDelaysNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := dead{calls: make(chan struct{}, 1)}
		a := sqs.New(d, "url", slog.New(slog.DiscardHandler))
		stop := run(t, a)
		defer stop()
		began := time.Now()
		for range 20_000 {
			a.Announce(line.Admission{EventID: "ev", UserID: "u"})
		}
		require.Zero(t, time.Since(began), "nothing was waited for")
		<-d.calls
	})
}
