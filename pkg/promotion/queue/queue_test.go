package queue_test

import (
	"context"
	"crypto/md5" //nolint:gosec // SQS's checksum
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"urr.guru/pkg/promotion"
	"urr.guru/pkg/promotion/queue"
	"urr.guru/pkg/sqs"
	"urr.guru/pkg/testkit"
)

// poll is an SQS that answers like that of AWS: a long poll that its client has given up lives on,
// and hides what it finds.
type poll struct {
	asked chan string   // attempt ids
	sent  chan string   // bodies
	freed chan []string // receipt handles, in the order of the call
}

func newPoll(t *testing.T) (*poll, *queue.Queue) {
	t.Helper()
	p := &poll{asked: make(chan string, 9), sent: make(chan string, 9), freed: make(chan []string, 9)}
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(p.sent) })
	client, err := sqs.Open(t.Context(), sqs.Config{Region: "local", Endpoint: server.URL})
	require.NoError(t, err)
	return p, queue.New(client, queue.Config{Name: "requests"})
}

func (p *poll) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct {
		ReceiveRequestAttemptId string
		Entries                 []struct{ ReceiptHandle string }
	}
	_ = json.NewDecoder(r.Body).Decode(&in)
	out := map[string]any{}
	switch _, call, _ := strings.Cut(r.Header.Get("X-Amz-Target"), "."); call {
	case "GetQueueUrl":
		out["QueueUrl"] = "http://" + r.Host + "/requests.fifo"
	case "ReceiveMessage":
		p.asked <- in.ReceiveRequestAttemptId
		body := <-p.sent
		sum := md5.Sum([]byte(body)) //nolint:gosec // SQS's checksum
		out["Messages"] = []any{map[string]any{"Body": body, "MessageId": "1", "ReceiptHandle": "h", "MD5OfBody": hex.EncodeToString(sum[:])}}
	case "ChangeMessageVisibilityBatch":
		var handles []string
		for _, e := range in.Entries {
			handles = append(handles, e.ReceiptHandle)
		}
		p.freed <- handles
	}
	w.Header().Set("Content-Type", "application/x-amz-json-1.0")
	_ = json.NewEncoder(w).Encode(out)
}

// Whoever stops lets its poll end, so that no message is hidden that nobody has.
func TestPollEndsAfterItsReceiverHasStopped(t *testing.T) {
	t.Parallel()
	server, q := newPoll(t)
	ctx, stop := context.WithCancel(t.Context())
	type answer struct {
		got []promotion.Delivery
		err error
	}
	answers := make(chan answer, 1)
	go func() {
		got, err := q.Receive(ctx)
		answers <- answer{got, err}
	}()
	require.NotEmpty(t, testkit.Receive(t, server.asked, "the poll"), "an id, so that a repeated call gets the same messages")
	stop()
	server.sent <- "late"
	a := testkit.Receive(t, answers, "the end of the poll")
	require.NoError(t, a.err)
	require.Len(t, a.got, 1)
	require.Equal(t, "late", a.got[0].Body)
}

func TestMessagesAreReleasedFromTheLastOn(t *testing.T) {
	t.Parallel()
	server, q := newPoll(t)
	require.NoError(t, q.Release(t.Context(), []promotion.Delivery{{Handle: "1"}, {Handle: "2"}, {Handle: "3"}}, 0))
	require.Equal(t, []string{"3", "2", "1"}, testkit.Receive(t, server.freed, "the release"))
}
